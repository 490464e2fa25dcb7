-- All computed numbers.
SELECT key, max, at FROM computed;
