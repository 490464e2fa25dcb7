-- The lines in which jobs stand: scheduled, ready, set aside, waiting on a key.

-- name: due
-- Scheduled jobs that are due; those with a due time that is no number stand behind all others.   ?1 now  ?2 how many
-- Reads: jobs_scheduled, in index order.
SELECT * FROM (SELECT seq FROM jobs WHERE state = 'scheduled' AND due <= ?1 ORDER BY due, seq LIMIT ?2)
UNION ALL SELECT * FROM (SELECT seq FROM jobs WHERE state = 'scheduled' AND due >= '' LIMIT 10);

-- name: claimable
-- The next ready jobs of one queue.   ?1 queue  ?2 how many  ?3 gravity
-- Reads: jobs_ready, in index order.
SELECT seq, id, task, queue, args, tenant, priority, due, attempt, tries, retry, timeout, metadata, enqueued_at,
       progress, uses, offered_by, units, refusals, suspicion, headers, tag, start_by, extras
FROM jobs
WHERE state = 'ready' AND set_aside = 0 AND gravity = ?3 AND queue = ?1
ORDER BY priority, tag, due, seq
LIMIT ?2;

-- name: claimable_aside
-- The next ready jobs of one queue and task that were set aside.   ?1 queue  ?2 task  ?3 how many  ?4 gravity
-- ?5 why: 1 the task was unknown, 2 there was no thread
-- Reads: jobs_aside, in index order.
SELECT seq, id, task, queue, args, tenant, priority, due, attempt, tries, retry, timeout, metadata, enqueued_at,
       progress, uses, offered_by, units, refusals, suspicion, headers, tag, start_by, extras
FROM jobs
WHERE state = 'ready' AND set_aside > 0 AND set_aside = ?5 AND gravity = ?4 AND queue = ?1 AND task = ?2
ORDER BY priority, tag, due, seq
LIMIT ?3;

-- name: aside_tasks
-- The queues and tasks that have jobs set aside: two index steps per pair, however many jobs each has.
-- ?1 gravity  ?2 why: 1 the task was unknown, 2 there was no thread
-- Reads: jobs_aside.
WITH RECURSIVE t(queue, task) AS (
    SELECT * FROM (SELECT queue, task FROM jobs WHERE state = 'ready' AND set_aside > 0 AND set_aside = ?2 AND gravity = ?1
                   ORDER BY queue, task LIMIT 1)
    UNION ALL
    SELECT j.queue, j.task FROM t JOIN jobs j ON j.seq = coalesce(
        (SELECT n.seq FROM jobs n
         WHERE n.state = 'ready' AND n.set_aside > 0 AND n.set_aside = ?2 AND n.gravity = ?1 AND n.queue = t.queue
               AND n.task > t.task
         ORDER BY n.task LIMIT 1),
        (SELECT n.seq FROM jobs n
         WHERE n.state = 'ready' AND n.set_aside > 0 AND n.set_aside = ?2 AND n.gravity = ?1 AND n.queue > t.queue
         ORDER BY n.queue, n.task LIMIT 1)
    )
)
SELECT queue, task FROM t;

-- name: ready_queues
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

-- name: ready_in
-- Ready jobs of a queue whose name is no text.   ?1 queue (as bytes)  ?2 gravity
-- Reads: jobs_ready.
SELECT seq FROM jobs WHERE state = 'ready' AND set_aside = 0 AND gravity = ?2 AND queue = CAST(?1 AS TEXT) LIMIT 1000;

-- name: set_aside
-- Jobs of tasks that the claiming worker does not know.   ?1 JSON array of seq
-- Writes: jobs by rowid; jobs_ready, jobs_aside, jobs_offered.
UPDATE jobs SET set_aside = 1, offered_by = NULL, units = 0 WHERE seq IN (SELECT value FROM json_each(?1));

-- name: keep_for_thread
-- Jobs for which the claiming worker has no thread keep what they were offered.   ?1 JSON array of seq
-- Writes: jobs by rowid; jobs_ready, jobs_aside.
UPDATE jobs SET set_aside = 2 WHERE seq IN (SELECT value FROM json_each(?1));

-- name: waited_for
-- For each key: the queues that have waiters, with what the key has promised in each, how much of it is held, and the first
-- waiter. One index step per queue, however many wait.   ?1 JSON array of keys
-- Reads: jobs_waiting, jobs_offered, holders by primary key, the first waiters by rowid.
WITH RECURSIVE q(key, queue) AS (
    SELECT k.value, (SELECT min(j.queue) FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on = k.value)
    FROM json_each(?1) k
    UNION ALL
    SELECT q.key, (SELECT min(j.queue) FROM jobs j
                   WHERE j.state = 'waiting' AND j.waiting_on = q.key AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL
)
SELECT (SELECT coalesce(sum(o.units), 0) FROM jobs o WHERE o.offered_by = q.key AND o.queue = q.queue),
       (SELECT coalesce(sum(h.units), 0) FROM holders h WHERE h.key = q.key),
       w.seq, w.id, w.task, w.queue, w.args, w.tenant, w.priority, w.due, w.attempt, w.tries, w.retry, w.timeout,
       w.metadata, w.enqueued_at, w.progress, w.uses, w.waiting_on, w.units, w.refusals, w.suspicion, w.headers,
       w.tag, w.start_by, w.extras
FROM q CROSS JOIN jobs w
WHERE w.seq = (SELECT f.seq FROM jobs f WHERE f.state = 'waiting' AND f.waiting_on = q.key AND f.queue = q.queue
               ORDER BY f.priority, f.tag, f.due, f.seq LIMIT 1);

-- name: waiters
-- The first waiters of a queue on a key, with all that a claim in the same step needs.   ?1 key  ?2 queue  ?3 how many
-- Reads: jobs_waiting, in index order.
SELECT seq, id, task, queue, args, tenant, priority, due, attempt, tries, retry, timeout, metadata, enqueued_at,
       progress, uses, waiting_on, units, refusals, suspicion, headers, tag, start_by, extras
FROM jobs
WHERE state = 'waiting' AND waiting_on = ?1 AND queue = ?2
ORDER BY priority, tag, due, seq
LIMIT ?3;

-- name: waiting_on
-- All jobs that wait on a key, for one that is garbled.   ?1 key
-- Reads: jobs_waiting.
SELECT seq FROM jobs WHERE state = 'waiting' AND waiting_on = CAST(?1 AS TEXT);

-- name: offered
-- What keys have promised to ready jobs of queues.   ?1 JSON array of [key, queue]
-- Reads: jobs_offered alone (it covers the sum).
SELECT k.value ->> 0, k.value ->> 1,
       (SELECT coalesce(sum(j.units), 0) FROM jobs j WHERE j.offered_by = k.value ->> 0 AND j.queue = k.value ->> 1)
FROM json_each(?1) k;

-- name: make_ready
-- Waiting jobs are offered their key's room.   ?1 JSON array of [seq, key, units]
-- Writes: jobs by rowid; jobs_waiting, jobs_ready, jobs_offered.
UPDATE jobs
SET state = 'ready', waiting_on = NULL, offered_by = r.value ->> 1, units = r.value ->> 2
FROM json_each(?1) r
WHERE jobs.seq = r.value ->> 0;

-- name: park
-- Refused jobs wait.   ?1 JSON array of [seq, key, units, refusals]
-- Writes: jobs by rowid; jobs_ready, jobs_offered, jobs_waiting.
UPDATE jobs
SET state = 'waiting', waiting_on = r.value ->> 1, offered_by = NULL, units = r.value ->> 2,
    refusals = r.value ->> 3, set_aside = 0
FROM json_each(?1) r
WHERE jobs.seq = r.value ->> 0;
