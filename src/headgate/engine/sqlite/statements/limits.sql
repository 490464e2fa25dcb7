-- All declared limits.
SELECT name, kind, max, period, burst, algorithm FROM limits;
