-- Workers, their leases and messages; queues; periodic tasks; when time has work.

-- name: register
-- A worker's lease begins.   ?1 id ?2 tasks ?3 queues ?4 lease ?5 host ?6 pid ?7 concurrency ?8 threaded
-- ?9 now ?10 lease_until
INSERT OR REPLACE INTO workers (id, tasks, queues, lease, host, pid, concurrency, threaded, registered_at, lease_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: beat
-- Renew a lease that has not lapsed.   ?1 worker  ?2 now
UPDATE workers SET lease_until = ?2 + lease WHERE id = ?1 AND lease_until > ?2;

-- name: seen
-- When a worker last proved to be alive, and its lease.   ?1 worker
-- Reads: workers by primary key.
SELECT CAST(lease_until - lease AS INTEGER), CAST(lease AS INTEGER) FROM workers WHERE id = CAST(?1 AS TEXT);

-- name: put_number
-- The last numbered message of a worker that took effect.   ?1 worker  ?2 number
-- Writes: workers by primary key.
UPDATE workers SET number = ?2 WHERE id = ?1;

-- name: forget_worker
-- A worker is gone.   ?1 worker
DELETE FROM workers WHERE id = CAST(?1 AS TEXT);

-- name: worker_ids
-- The ids of the registered workers.
SELECT id FROM workers;

-- name: worker_rows
-- What must make sense of each worker's row.
SELECT id, queues, lease, lease_until, number, tasks, concurrency, threaded FROM workers;

-- name: lapsed
-- Workers whose lease has run out, or ends at no time at all.   ?1 now
-- Reads: workers_lease; sorts the few that have lapsed.
SELECT id FROM workers INDEXED BY workers_lease WHERE lease_until <= ?1
UNION ALL SELECT id FROM workers INDEXED BY workers_lease WHERE lease_until >= ''
ORDER BY id;

-- name: begin_exchange
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
SELECT m.value, w.lease_until, w.number, w.tasks, w.concurrency, w.threaded,
       (SELECT json_group_array(queue) FROM paused),
       EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside > 0),
       EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside = 0 AND gravity > 0),
       (SELECT json_group_array(queue) FROM q WHERE queue IS NOT NULL)
FROM meta m LEFT JOIN workers w ON w.id = ?1 WHERE m.name = 'rules';

-- name: end_exchange
-- What an exchange tells last: the jobs this worker runs that were asked to stop, and when a sweep will next have work
-- (retention aside: it can wait for any sweep).   ?1 worker
-- Reads: jobs_running, the first entry of each index.
SELECT (SELECT json_group_array(id) FROM jobs WHERE state = 'running' AND worker = ?1 AND cancel_requested = 1),
       (SELECT CAST(min(due) AS INTEGER) FROM jobs WHERE state = 'scheduled'),
       (SELECT min(at) FROM timers),
       (SELECT CAST(min(lease_until) AS INTEGER) FROM workers),
       (SELECT min(expires_at) FROM holders WHERE expires_at IS NOT NULL),
       (SELECT min(until) FROM overrides WHERE until IS NOT NULL),
       (SELECT CAST(min(late_at) AS INTEGER) FROM jobs WHERE late_at IS NOT NULL),
       (SELECT 0 FROM unsettled LIMIT 1),
       (SELECT 0 FROM slices LIMIT 1);

-- name: pause
-- Pause a queue.   ?1 queue
INSERT OR IGNORE INTO paused (queue) VALUES (?1);

-- name: resume
-- Resume a queue.   ?1 queue
DELETE FROM paused WHERE queue = ?1;

-- name: tick
-- The last tick of a periodic task.   ?1 task
SELECT at FROM ticks WHERE task = ?1;

-- name: put_tick
-- Move the last tick.   ?1 task  ?2 at
INSERT INTO ticks (task, at) VALUES (?1, ?2) ON CONFLICT (task) DO UPDATE SET at = ?2;

-- name: paused_schedules
-- The periodic tasks that do not tick.
SELECT task FROM paused_schedules;

-- name: schedule_paused
-- Whether a periodic task is among them.   ?1 task
SELECT 1 FROM paused_schedules WHERE task = ?1;

-- name: pause_schedule
-- Let a periodic task tick no more.   ?1 task
INSERT OR IGNORE INTO paused_schedules (task) VALUES (?1);

-- name: resume_schedule
-- Let a periodic task tick again.   ?1 task
DELETE FROM paused_schedules WHERE task = ?1;

-- name: next_due
-- When a sweep will next have work (retention aside: it can wait for any sweep): at once where limits have
-- changed whose keys have yet to be looked at.
-- Reads: the first entry of each index.
SELECT (SELECT CAST(min(due) AS INTEGER) FROM jobs WHERE state = 'scheduled'),
       (SELECT min(at) FROM timers),
       (SELECT CAST(min(lease_until) AS INTEGER) FROM workers),
       (SELECT min(expires_at) FROM holders WHERE expires_at IS NOT NULL),
       (SELECT min(until) FROM overrides WHERE until IS NOT NULL),
       (SELECT CAST(min(late_at) AS INTEGER) FROM jobs WHERE late_at IS NOT NULL),
       (SELECT 0 FROM unsettled LIMIT 1),
       (SELECT 0 FROM slices LIMIT 1);

-- name: next_expiry
-- When retention next has work, and when what is known of idle keys and shares, and history, can be forgotten.
-- ?1 how long numbers of keys are kept  ?2 how long history is  ?3 how long mean times are
-- Reads: the first entry of each index, of jobs_ended those of each state.
WITH RECURSIVE s(state) AS (
    SELECT min(state) FROM jobs WHERE expires_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(j.state) FROM jobs j WHERE j.expires_at IS NOT NULL AND j.state > s.state)
    FROM s WHERE s.state IS NOT NULL
)
SELECT (SELECT min((SELECT CAST(min(j.expires_at) AS INTEGER) FROM jobs j
                    WHERE j.state = s.state AND j.expires_at IS NOT NULL)) FROM s),
       (SELECT min(full_at) FROM meters),
       (SELECT min(gone_at) FROM starts),
       (SELECT min(at) + ?1 FROM numbers),
       (SELECT min(at) + ?2 FROM history),
       (SELECT min(at) + ?3 FROM means);
