-- Keys that have waiters, in order: one index step per key, however many wait.
-- ?1 first key  ?2 below which key (NULL: to the end)  ?3 how many
-- Reads: jobs_waiting.
WITH RECURSIVE k(key) AS (
    SELECT min(waiting_on) FROM jobs WHERE state = 'waiting' AND waiting_on >= CAST(?1 AS TEXT)
    UNION ALL
    SELECT (SELECT min(j.waiting_on) FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on > k.key)
    FROM k WHERE k.key < ?2 OR (?2 IS NULL AND k.key IS NOT NULL)
    LIMIT ?3
)
SELECT key FROM k WHERE key < ?2 OR (?2 IS NULL AND key IS NOT NULL);
