-- How the store stands as a whole, and its queues: each part counts in an index of its own, as far as it is told to.

-- name: totals
-- Jobs by state, of each part of a state up to a number.   ?1 how many to count (-1: all)
-- Reads: jobs_ready, jobs_aside, jobs_scheduled, jobs_waiting, jobs_running, jobs_ended.
SELECT 'scheduled', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'scheduled' LIMIT ?1))
UNION ALL SELECT 'ready', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside = 0 LIMIT ?1))
UNION ALL SELECT 'ready', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside > 0 LIMIT ?1))
UNION ALL SELECT 'waiting', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'waiting' LIMIT ?1))
UNION ALL SELECT 'running', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'running' LIMIT ?1))
UNION ALL SELECT 'succeeded', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'succeeded' AND expires_at IS NOT NULL LIMIT ?1))
UNION ALL SELECT 'failed', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'failed' AND expires_at IS NOT NULL LIMIT ?1))
UNION ALL SELECT 'cancelled', (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'cancelled' AND expires_at IS NOT NULL LIMIT ?1));

-- name: ready_counts
-- Ready jobs of a gravity by queue, of each queue up to a number: one index step per queue and what is counted.
-- ?1 gravity  ?2 how many to count
-- Reads: jobs_ready.
WITH RECURSIVE q(queue) AS (
    SELECT min(queue) FROM jobs WHERE state = 'ready' AND set_aside = 0 AND gravity = ?1
    UNION ALL
    SELECT (SELECT min(j.queue) FROM jobs j
            WHERE j.state = 'ready' AND j.set_aside = 0 AND j.gravity = ?1 AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL
)
SELECT queue, 'ready', (SELECT count(*) FROM (SELECT 1 FROM jobs j WHERE j.state = 'ready' AND j.set_aside = 0
                                              AND j.gravity = ?1 AND j.queue = q.queue LIMIT ?2))
FROM q WHERE queue IS NOT NULL;

-- name: line_counts
-- The first jobs of lines that are not in the order of queues, by queue and state.   ?1 how many to count of each line
-- Reads: jobs_aside, jobs_scheduled, jobs_waiting, jobs_running, and the rows of scheduled and running jobs.
SELECT queue, 'ready', count(*) FROM (SELECT queue FROM jobs WHERE state = 'ready' AND set_aside > 0 LIMIT ?1) GROUP BY queue
UNION ALL SELECT queue, 'scheduled', count(*) FROM (SELECT queue FROM jobs WHERE state = 'scheduled' LIMIT ?1) GROUP BY queue
UNION ALL SELECT queue, 'waiting', count(*) FROM (SELECT queue FROM jobs WHERE state = 'waiting' LIMIT ?1) GROUP BY queue
UNION ALL SELECT queue, 'running', count(*) FROM (SELECT queue FROM jobs WHERE state = 'running' LIMIT ?1) GROUP BY queue;

-- name: waiting_queues
-- The queues that have waiters on a key: one index step per queue, however many wait.   ?1 key
-- Reads: jobs_waiting.
WITH RECURSIVE q(queue) AS (
    SELECT min(queue) FROM jobs WHERE state = 'waiting' AND waiting_on = ?1
    UNION ALL
    SELECT (SELECT min(j.queue) FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on = ?1 AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL
)
SELECT queue FROM q WHERE queue IS NOT NULL;

-- name: waiters_of
-- The first waiters of a queue on a key, for people.   ?1 key  ?2 queue  ?3 how many
-- Reads: jobs_waiting, in index order.
SELECT priority, tag, due, seq, id, task, queue, tenant FROM jobs
WHERE state = 'waiting' AND waiting_on = ?1 AND queue = ?2
ORDER BY priority, tag, due, seq LIMIT ?3;
