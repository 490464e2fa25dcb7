-- The queues that have ready jobs of a gravity: one index step per queue, however many jobs each has.   ?1 gravity
-- Reads: jobs_ready.
WITH RECURSIVE q(queue) AS (
    SELECT min(queue) FROM jobs WHERE state = 'ready' AND set_aside = 0 AND gravity = ?1
    UNION ALL
    SELECT (SELECT min(j.queue) FROM jobs j
            WHERE j.state = 'ready' AND j.set_aside = 0 AND j.gravity = ?1 AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL
)
SELECT queue FROM q WHERE queue IS NOT NULL;
