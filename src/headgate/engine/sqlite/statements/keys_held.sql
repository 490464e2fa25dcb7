-- Keys that are held, in order: one index step per key, however many hold it.
-- ?1 first key  ?2 below which key (NULL: to the end)  ?3 how many
-- Reads: holders by primary key.
WITH RECURSIVE k(key) AS (
    SELECT min(key) FROM holders WHERE key >= CAST(?1 AS TEXT)
    UNION ALL
    SELECT (SELECT min(h.key) FROM holders h WHERE h.key > k.key)
    FROM k WHERE k.key < ?2 OR (?2 IS NULL AND k.key IS NOT NULL)
    LIMIT ?3
)
SELECT key FROM k WHERE key < ?2 OR (?2 IS NULL AND key IS NOT NULL);
