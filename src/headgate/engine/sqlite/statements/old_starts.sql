-- Keys that have old starts.   ?1 how many rows to look at
-- Reads: starts_at.
SELECT DISTINCT key FROM (SELECT key FROM starts ORDER BY at LIMIT ?1);
