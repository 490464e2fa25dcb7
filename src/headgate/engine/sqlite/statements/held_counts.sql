-- Holders per key, for people.
SELECT key, count(*) FROM holders GROUP BY key;
