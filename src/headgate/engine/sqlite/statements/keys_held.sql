-- All keys that are held: one index step per key, however many hold it.
-- Reads: holders by primary key.
WITH RECURSIVE k(key) AS (
    SELECT min(key) FROM holders
    UNION ALL
    SELECT (SELECT min(h.key) FROM holders h WHERE h.key > k.key) FROM k WHERE k.key IS NOT NULL
)
SELECT key FROM k WHERE key IS NOT NULL;
