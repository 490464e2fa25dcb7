-- All keys that have waiters: one index step per key, however many wait.
-- Reads: jobs_waiting.
WITH RECURSIVE k(key) AS (
    SELECT min(waiting_on) FROM jobs WHERE state = 'waiting'
    UNION ALL
    SELECT (SELECT min(j.waiting_on) FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on > k.key)
    FROM k WHERE k.key IS NOT NULL
)
SELECT key FROM k WHERE key IS NOT NULL;
