-- What people and the audit look at.

-- name: find
-- Jobs that match, newest first. A NULL parameter does not matter.
-- ?1 states (JSON) ?2 queue ?3 task ?4 tenant ?5 waiting_on (JSON) ?6 ids (JSON) ?7 unique ?8 error ?9 its length
-- ?10 ended since ?11 ended until ?12 before seq ?13 how many ?14 from seq
-- Reads: jobs from its end; stops as soon as it has enough.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after, headers, tag, start_by,
       share, charge, unique_for, unique_until, updates, spent, extras
FROM jobs
WHERE (?1 IS NULL OR state IN (SELECT value FROM json_each(?1)))
  AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3) AND (?4 IS NULL OR tenant = ?4)
  AND (?5 IS NULL OR waiting_on IN (SELECT value FROM json_each(?5))) AND (?6 IS NULL OR id IN (SELECT value FROM json_each(?6)))
  AND (?7 IS NULL OR unique_key = ?7)
  AND (?8 IS NULL OR instr(error, ?8) BETWEEN 1 AND instr(error || char(10), char(10)) - ?9)
  AND (?10 IS NULL OR ended_at >= ?10) AND (?11 IS NULL OR ended_at < ?11)
  AND ((?10 IS NULL AND ?11 IS NULL) OR state IN ('succeeded', 'failed', 'cancelled'))
  AND seq < ?12 AND seq >= ?14
ORDER BY seq DESC
LIMIT ?13;

-- name: find_among
-- Those of some jobs that match; parameters as in find.
-- ?12 their numbers (JSON)  ?13 how many
-- Reads: jobs by rowid.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after, headers, tag, start_by,
       share, charge, unique_for, unique_until, updates, spent, extras
FROM jobs
WHERE (?1 IS NULL OR state IN (SELECT value FROM json_each(?1)))
  AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3) AND (?4 IS NULL OR tenant = ?4)
  AND (?5 IS NULL OR waiting_on IN (SELECT value FROM json_each(?5))) AND (?6 IS NULL OR id IN (SELECT value FROM json_each(?6)))
  AND (?7 IS NULL OR unique_key = ?7)
  AND (?8 IS NULL OR instr(error, ?8) BETWEEN 1 AND instr(error || char(10), char(10)) - ?9)
  AND (?10 IS NULL OR ended_at >= ?10) AND (?11 IS NULL OR ended_at < ?11)
  AND ((?10 IS NULL AND ?11 IS NULL) OR state IN ('succeeded', 'failed', 'cancelled'))
  AND seq IN (SELECT value FROM json_each(?12))
ORDER BY seq DESC
LIMIT ?13;

-- name: in_states
-- The newest jobs of some states, by the partial index of each: what they do not have is not looked at.
-- ?1 states (JSON)  ?2 before seq  ?3 how many
-- Reads: jobs_scheduled, jobs_ready, jobs_aside, jobs_waiting, jobs_running, jobs_ended.
SELECT seq FROM (
    SELECT seq FROM jobs INDEXED BY jobs_scheduled WHERE state = 'scheduled' AND instr(?1, '"scheduled"') AND +seq < ?2
    UNION ALL SELECT seq FROM jobs INDEXED BY jobs_ready WHERE state = 'ready' AND set_aside = 0 AND instr(?1, '"ready"') AND +seq < ?2
    UNION ALL SELECT seq FROM jobs INDEXED BY jobs_aside WHERE state = 'ready' AND set_aside > 0 AND instr(?1, '"ready"') AND +seq < ?2
    UNION ALL SELECT seq FROM jobs INDEXED BY jobs_waiting WHERE state = 'waiting' AND instr(?1, '"waiting"') AND +seq < ?2
    UNION ALL SELECT seq FROM jobs INDEXED BY jobs_running WHERE state = 'running' AND instr(?1, '"running"') AND +seq < ?2
    UNION ALL SELECT seq FROM jobs INDEXED BY jobs_ended WHERE state = 'succeeded' AND expires_at IS NOT NULL AND instr(?1, '"succeeded"') AND +seq < ?2
    UNION ALL SELECT seq FROM jobs INDEXED BY jobs_ended WHERE state = 'failed' AND expires_at IS NOT NULL AND instr(?1, '"failed"') AND +seq < ?2
    UNION ALL SELECT seq FROM jobs INDEXED BY jobs_ended WHERE state = 'cancelled' AND expires_at IS NOT NULL AND instr(?1, '"cancelled"') AND +seq < ?2
) ORDER BY seq DESC LIMIT ?3;

-- name: newest
-- The newest jobs.   ?1 before seq  ?2 how many
SELECT seq FROM jobs WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2;

-- name: waiting_for
-- The newest jobs that wait on some keys.   ?1 keys (JSON)  ?2 before seq  ?3 how many
-- Reads: jobs_waiting.
SELECT seq FROM jobs
WHERE state = 'waiting' AND waiting_on IN (SELECT value FROM json_each(?1)) AND +seq < ?2 ORDER BY seq DESC LIMIT ?3;

-- name: id_of
-- The id of a job.   ?1 seq
SELECT id FROM jobs WHERE seq = ?1;

-- name: last_seq
-- The number of the newest job.
SELECT max(seq) FROM jobs;

-- name: count
-- How many match; parameters as in find.
SELECT count(*) FROM jobs
WHERE (?1 IS NULL OR state IN (SELECT value FROM json_each(?1)))
  AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3) AND (?4 IS NULL OR tenant = ?4)
  AND (?5 IS NULL OR waiting_on IN (SELECT value FROM json_each(?5))) AND (?6 IS NULL OR id IN (SELECT value FROM json_each(?6)))
  AND (?7 IS NULL OR unique_key = ?7)
  AND (?8 IS NULL OR instr(error, ?8) BETWEEN 1 AND instr(error || char(10), char(10)) - ?9)
  AND (?10 IS NULL OR ended_at >= ?10) AND (?11 IS NULL OR ended_at < ?11)
  AND ((?10 IS NULL AND ?11 IS NULL) OR state IN ('succeeded', 'failed', 'cancelled'));

-- name: states
-- Only the states.   ?1 JSON array of ids
SELECT id, state FROM jobs WHERE id IN (SELECT value FROM json_each(?1));

-- name: queue_oldest
-- The first due time of each queue's ready jobs: a few index steps per priority that a queue has jobs of. The next
-- priority is looked for in the same line, else in the next line, and so on: a comparison of whole rows would walk over
-- all jobs of a priority. Of jobs with a share, which stand in the order of their tags, the first thousand of a line are looked
-- at: the longest waiting of each share is its first.
-- Reads: jobs_ready, jobs_aside.
WITH RECURSIVE r(gravity, queue, priority, due) AS (
    SELECT * FROM (SELECT gravity, queue, priority, due FROM jobs WHERE state = 'ready' AND set_aside = 0
                   ORDER BY gravity, queue, priority, tag, due LIMIT 1)
    UNION ALL
    SELECT j.gravity, j.queue, j.priority, j.due FROM r JOIN jobs j ON j.seq = coalesce(
        (SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.set_aside = 0
         AND n.gravity = r.gravity AND n.queue = r.queue AND n.priority > r.priority
         ORDER BY n.priority, n.tag, n.due LIMIT 1),
        (SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.set_aside = 0
         AND n.gravity = r.gravity AND n.queue > r.queue
         ORDER BY n.queue, n.priority, n.tag, n.due LIMIT 1),
        (SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.set_aside = 0 AND n.gravity > r.gravity
         ORDER BY n.gravity, n.queue, n.priority, n.tag, n.due LIMIT 1)
    )
), a(set_aside, gravity, queue, task, priority, due) AS (
    SELECT * FROM (SELECT set_aside, gravity, queue, task, priority, due FROM jobs
                   WHERE state = 'ready' AND set_aside > 0
                   ORDER BY set_aside, gravity, queue, task, priority, tag, due LIMIT 1)
    UNION ALL
    SELECT j.set_aside, j.gravity, j.queue, j.task, j.priority, j.due FROM a JOIN jobs j ON j.seq = coalesce(
        (SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.set_aside > 0 AND n.set_aside = a.set_aside
         AND n.gravity = a.gravity AND n.queue = a.queue AND n.task = a.task AND n.priority > a.priority
         ORDER BY n.priority, n.tag, n.due LIMIT 1),
        (SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.set_aside > 0 AND n.set_aside = a.set_aside
         AND n.gravity = a.gravity AND n.queue = a.queue AND n.task > a.task
         ORDER BY n.task, n.priority, n.tag, n.due LIMIT 1),
        (SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.set_aside > 0 AND n.set_aside = a.set_aside
         AND n.gravity = a.gravity AND n.queue > a.queue
         ORDER BY n.queue, n.task, n.priority, n.tag, n.due LIMIT 1),
        (SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.set_aside > 0 AND n.set_aside = a.set_aside AND n.gravity > a.gravity
         ORDER BY n.gravity, n.queue, n.task, n.priority, n.tag, n.due LIMIT 1),
        (SELECT n.seq FROM jobs n WHERE n.set_aside > a.set_aside AND n.state = 'ready' AND n.set_aside > 0
         ORDER BY n.set_aside, n.gravity, n.queue, n.task, n.priority, n.tag, n.due LIMIT 1)
    )
)
SELECT queue, min(due) FROM (
    SELECT queue, due FROM r UNION ALL SELECT queue, due FROM a
    UNION ALL
    SELECT r.queue, (SELECT min(due) FROM (SELECT j.due FROM jobs j WHERE j.state = 'ready' AND j.set_aside = 0
                     AND j.gravity = r.gravity AND j.queue = r.queue AND j.priority = r.priority AND j.tag > 0 LIMIT 1000))
    FROM r
    UNION ALL
    SELECT a.queue, (SELECT min(due) FROM (SELECT j.due FROM jobs j WHERE j.state = 'ready' AND j.set_aside > 0
                     AND j.set_aside = a.set_aside AND j.gravity = a.gravity AND j.queue = a.queue AND j.task = a.task
                     AND j.priority = a.priority AND j.tag > 0 LIMIT 1000))
    FROM a
) GROUP BY queue;

-- name: paused
-- The paused queues.
SELECT queue FROM paused;

-- name: unfinished
-- Every unfinished job, for the audit.
SELECT id, state, queue, task, priority, seq, due, uses, waiting_on, offered_by, refusals, worker, attempt, tries,
       set_aside, suspicion, lost, tag, share, start_by
FROM jobs WHERE state IN ('scheduled', 'ready', 'waiting', 'running') ORDER BY seq;

-- name: all_holders
-- Every holder record with its job's id, for the audit.
SELECT h.key, coalesce(j.id, '#' || h.job), h.reserved, h.units FROM holders h LEFT JOIN jobs j ON j.seq = h.job;

-- name: all_numbers
-- All keys with a number of their own, for people.
SELECT key FROM numbers;

-- name: timers
-- Every timer, for the audit.
SELECT key, at FROM timers;

-- name: held_counts
-- Units held per key, for people.
SELECT key, sum(units) FROM holders GROUP BY key;

-- name: waiting_counts
-- Waiters per key, for people.
SELECT waiting_on, count(*) FROM jobs WHERE state = 'waiting' GROUP BY waiting_on;

-- name: held_between
-- How many hold keys of a range, up to a number, and how many units.
-- ?1 first key  ?2 below which key  ?3 how many to count
-- Reads: holders by primary key.
SELECT count(*), coalesce(sum(units), 0) FROM (SELECT units FROM holders WHERE key >= ?1 AND key < ?2 LIMIT ?3);

-- name: waiting_between
-- How many wait for keys of a range, up to a number.   ?1 first key  ?2 below which key  ?3 how many to count
-- Reads: jobs_waiting.
SELECT count(*), count(*) FROM (SELECT 1 FROM jobs WHERE state = 'waiting' AND waiting_on >= ?1 AND waiting_on < ?2 LIMIT ?3);

-- name: key_counts
-- How many units of a key are held and how many jobs wait on it.   ?1 key
SELECT (SELECT coalesce(sum(units), 0) FROM holders WHERE key = ?1),
       (SELECT count(*) FROM jobs WHERE state = 'waiting' AND waiting_on = ?1);

-- name: holders_of
-- Who holds a key.   ?1 key  ?2 how many
SELECT j.id, j.task, j.worker, h.since, h.reserved, h.units
FROM holders h JOIN jobs j ON j.seq = h.job
WHERE h.key = ?1 ORDER BY h.since, h.job LIMIT ?2;

-- name: place
-- How many of its queue stand before a waiting job.   ?1 key ?2 queue ?3 priority ?4 tag ?5 due ?6 seq
-- Reads: jobs_waiting up to the job.
SELECT count(*) FROM jobs
WHERE state = 'waiting' AND waiting_on = ?1 AND queue = ?2 AND (priority, tag, due, seq) < (?3, ?4, ?5, ?6);

-- name: workers
-- The registered workers with how much each runs.
-- Reads: workers, jobs_running.
SELECT id, tasks, queues, lease, host, pid, concurrency, threaded, registered_at, lease_until,
       (SELECT count(*) FROM jobs WHERE state = 'running' AND worker = workers.id)
FROM workers ORDER BY id;

-- name: live_workers
-- What the workers with a lease serve and know.   ?1 now
SELECT id, queues, tasks FROM workers WHERE lease_until > ?1;
