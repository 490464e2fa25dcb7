-- What an exchange needs to know first: how often the rules have changed, the worker's lease, number, tasks and places,
-- the paused queues, whether any job is set aside or suspect, and the queues that have ready jobs (one index step per
-- queue, however many jobs each has).   ?1 worker
-- Reads: meta and workers by primary key, paused, the first entry of jobs_aside, jobs_ready.
WITH RECURSIVE q(queue) AS (
    SELECT min(queue) FROM jobs WHERE state = 'ready' AND set_aside = 0 AND gravity = 0
    UNION ALL
    SELECT (SELECT min(j.queue) FROM jobs j
            WHERE j.state = 'ready' AND j.set_aside = 0 AND j.gravity = 0 AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL
)
SELECT m.value, w.lease_until, w.number, w.tasks, w.concurrency,
       (SELECT json_group_array(queue) FROM paused),
       EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside = 1),
       EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside = 0 AND gravity > 0),
       (SELECT json_group_array(queue) FROM q WHERE queue IS NOT NULL)
FROM meta m LEFT JOIN workers w ON w.id = ?1 WHERE m.name = 'rules';
