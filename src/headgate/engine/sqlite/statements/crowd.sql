-- Those that wait already (rule 19), and jobs that have not started in time.

-- name: count_waiting
-- How many jobs wait on a key, up to a number.   ?1 key  ?2 how many to count
-- Reads: jobs_waiting.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'waiting' AND waiting_on = ?1 LIMIT ?2);

-- name: count_backlog
-- How many jobs of a queue are ready or waiting, up to a number.   ?1 queue  ?2 how many to count
-- Reads: jobs_backlog.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE queue_line IS NOT NULL AND queue_line = ?1 LIMIT ?2);

-- name: all_waiting
-- The first jobs of all queues that wait on a key, in the order of queue and line.   ?1 key  ?2 how many
-- Reads: jobs_waiting, in index order.
SELECT seq FROM jobs WHERE state = 'waiting' AND waiting_on = ?1 ORDER BY queue, priority, tag, due, seq LIMIT ?2;

-- name: last_in_line
-- Of all queues' waiters on a key, the first among those of the least urgent priority: three index steps per queue.
-- ?1 key
-- Reads: jobs_waiting.
WITH RECURSIVE q(queue) AS (
    SELECT min(queue) FROM jobs WHERE state = 'waiting' AND waiting_on = ?1
    UNION ALL
    SELECT (SELECT min(j.queue) FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on = ?1 AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL
)
SELECT w.seq FROM q CROSS JOIN jobs w
WHERE w.seq = (SELECT f.seq FROM jobs f
               WHERE f.state = 'waiting' AND f.waiting_on = ?1 AND f.queue = q.queue AND f.priority = (
                   SELECT max(m.priority) FROM jobs m WHERE m.state = 'waiting' AND m.waiting_on = ?1 AND m.queue = q.queue)
               ORDER BY f.tag, f.due, f.seq LIMIT 1)
ORDER BY w.priority DESC, w.tag, w.due, w.seq LIMIT 1;

-- name: last_in_backlog
-- Of a queue's ready and waiting jobs, the first among those of the least urgent priority.   ?1 queue
-- Reads: jobs_backlog.
SELECT seq FROM jobs
WHERE queue_line IS NOT NULL AND queue_line = ?1 AND priority = (
    SELECT max(m.priority) FROM jobs m WHERE m.queue_line IS NOT NULL AND m.queue_line = ?1)
ORDER BY tag, due, seq LIMIT 1;

-- name: longest_running
-- The running holder of a key that has held it longest and was not asked to stop yet.   ?1 key
-- Reads: holders by primary key, as many as hold it; jobs by rowid.
SELECT h.job FROM holders h CROSS JOIN jobs j ON j.seq = h.job
WHERE h.key = ?1 AND h.reserved = 0 AND j.state = 'running' AND j.cancel_requested = 0
ORDER BY h.since, h.job LIMIT 1;

-- name: late
-- Jobs that were to have started by now.   ?1 now  ?2 how many
-- Reads: jobs_late, in index order.
SELECT seq FROM jobs WHERE late_at IS NOT NULL AND late_at <= ?1 ORDER BY late_at, seq LIMIT ?2;

-- name: mark_backlog
-- Jobs of a queue whose backlog is bounded from now on stand in its line.   ?1 queue  ?2 from seq  ?3 below seq
-- Writes: jobs by rowid; jobs_backlog. Looks at as many rows as there are between.
UPDATE jobs SET queue_line = queue, extras = extras | 1
WHERE seq >= ?2 AND seq < ?3 AND queue = ?1 AND state IN ('ready', 'waiting') AND queue_line IS NULL;
