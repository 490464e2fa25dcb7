-- All computed numbers, for people.
SELECT key, max, at FROM computed;
