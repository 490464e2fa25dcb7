-- Attempts: how they start, report and end, and what a worker runs.

-- name: start
-- Claimed jobs run; some were waiting until this very step.   ?1 JSON array of seq  ?2 worker  ?3 now
-- Writes: jobs by rowid; jobs_ready, jobs_waiting, jobs_offered, jobs_running.
UPDATE jobs
SET state = 'running', worker = ?2, attempt = attempt + 1, tries = tries + 1, started_at = ?3, error = NULL,
    waiting_on = NULL, offered_by = NULL, units = 0, set_aside = 0
WHERE seq IN (SELECT value FROM json_each(?1));

-- name: start_few
-- A handful of claimed jobs run: `start` where JSON costs more than it saves.   ? worker  ? now  ?* seqs
-- Writes: jobs by rowid; jobs_ready, jobs_waiting, jobs_offered, jobs_running.
UPDATE jobs
SET state = 'running', worker = ?, attempt = attempt + 1, tries = tries + 1, started_at = ?, error = NULL,
    waiting_on = NULL, offered_by = NULL, units = 0, set_aside = 0
WHERE seq IN (?*);

-- name: start_with_extras
-- `start` of jobs that also leave the lines that few jobs stand in, and begin to count the time of their unique keys: by
-- their first attempt.   ?1 JSON array of seq  ?2 worker  ?3 now
-- Writes: jobs by rowid; as `start`, and jobs_late, jobs_shares, jobs_backlog, jobs_unique.
UPDATE jobs
SET state = 'running', worker = ?2, attempt = attempt + 1, tries = tries + 1, started_at = ?3, error = NULL,
    waiting_on = NULL, offered_by = NULL, units = 0, set_aside = 0,
    start_by = NULL, late_at = NULL, share_line = NULL, queue_line = NULL, taken = CASE WHEN updates THEN NULL ELSE taken END,
    unique_until = CASE WHEN attempt = 0 AND unique_for IS NOT NULL THEN ?3 + unique_for ELSE unique_until END
WHERE seq IN (SELECT value FROM json_each(?1));

-- name: put_spent
-- What a running attempt has spent of estimated rates.   ?1 seq  ?2 JSON (NULL: nothing)
-- Writes: jobs by rowid.
UPDATE jobs SET spent = ?2 WHERE seq = ?1;

-- name: progress
-- A running attempt's progress, fenced.   ?1 id  ?2 attempt  ?3 worker  ?4 value
-- Writes: jobs through its unique index on id.
UPDATE jobs SET progress = ?4 WHERE id = ?1 AND attempt = ?2 AND worker = ?3 AND state = 'running';

-- name: succeed
-- Attempts that succeeded, fenced by worker and attempt; not those whose end is not that of any job.
-- ?1 JSON array of [id, attempt, result]  ?2 worker  ?3 now  ?4 default retention
-- Writes: jobs through its unique index on id (the + keeps the planner from jobs_running); jobs_running, jobs_ended.
UPDATE jobs
SET state = 'succeeded', outcome = 'succeeded', ended_at = ?3, result = r.value ->> 2,
    taken = NULL, spent = NULL, expires_at = ?3 + coalesce(retention, ?4)
FROM json_each(?1) r
WHERE jobs.id = r.value ->> 0 AND jobs.attempt = r.value ->> 1 AND +jobs.worker = ?2 AND +jobs.state = 'running'
      AND jobs.extras < 2
RETURNING jobs.seq;

-- name: succeed_own
-- Attempts that succeeded: `succeed` for jobs that this process claimed itself, so that it knows their numbers.
-- ?1 worker  ?2 now  ?3 default retention  ? rows of seq, attempt, result, id
-- Writes: jobs by rowid; jobs_running, jobs_ended.
UPDATE jobs
SET state = 'succeeded', outcome = 'succeeded', ended_at = ?2, result = r.column3,
    taken = NULL, spent = NULL, expires_at = ?2 + coalesce(retention, ?3)
FROM (VALUES (?, ?, ?, ?)) r
WHERE jobs.seq = r.column1 AND +jobs.id = r.column4 AND jobs.attempt = r.column2
      AND +jobs.worker = ?1 AND +jobs.state = 'running';

-- name: succeed_one
-- One attempt that succeeded, fenced by worker and attempt: `succeed_own` for a handful.
-- ?1 worker  ?2 now  ?3 default retention  ?4 seq  ?5 attempt  ?6 result  ?7 id
-- Writes: jobs by rowid; jobs_running, jobs_ended.
UPDATE jobs
SET state = 'succeeded', outcome = 'succeeded', ended_at = ?2, result = ?6, taken = NULL, spent = NULL,
    expires_at = ?2 + coalesce(retention, ?3)
WHERE seq = ?4 AND +id = ?7 AND attempt = ?5 AND +worker = ?1 AND +state = 'running';

-- name: ended_keys
-- What jobs that were just ended may hold: their tasks, queues and keys.   ?1 JSON array of seqs
-- Reads: jobs by rowid.
SELECT jobs.seq, jobs.id, jobs.task, jobs.queue, jobs.uses FROM json_each(?1) r JOIN jobs ON jobs.seq = r.value;

-- name: add_attempt
-- An attempt that ended without ending its job.   ?1 job ?2 number ?3 outcome ?4 started ?5 ended ?6 worker ?7 error
INSERT OR REPLACE INTO attempts (job, number, outcome, started_at, ended_at, worker, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: attempts
-- The attempts of a job that did not end it.   ?1 job
SELECT number, outcome, started_at, ended_at, worker, error FROM attempts WHERE job = ?1 ORDER BY number;

-- name: delete_attempts
-- A deleted job's history.   ?1 seq
DELETE FROM attempts WHERE job = ?1;

-- name: running_of
-- What a worker runs.   ?1 worker
-- Reads: jobs_running.
SELECT seq FROM jobs WHERE state = 'running' AND worker = CAST(?1 AS TEXT) ORDER BY seq;

-- name: running_pairs
-- What a worker runs, attempt by attempt.   ?1 worker
-- Reads: jobs_running.
SELECT seq, id, attempt FROM jobs WHERE state = 'running' AND worker = CAST(?1 AS TEXT) ORDER BY seq;

-- name: running_suspects
-- The suspects that a worker runs, as blame sees them.   ?1 worker
-- Reads: jobs_running.
SELECT suspicion, lost, lost_after, started_at FROM jobs WHERE state = 'running' AND worker = ?1 AND suspicion > 0;

-- name: cancelling
-- Jobs that a worker runs and that were asked to stop.   ?1 worker
-- Reads: jobs_running.
SELECT id FROM jobs WHERE state = 'running' AND worker = ?1 AND cancel_requested = 1;

-- name: orphans
-- Workers that run jobs without being registered: two index steps per worker that runs anything.
-- Reads: jobs_running, workers by primary key.
WITH RECURSIVE w(worker) AS (
    SELECT min(worker) FROM jobs WHERE state = 'running'
    UNION ALL
    SELECT (SELECT min(j.worker) FROM jobs j WHERE j.state = 'running' AND j.worker > w.worker)
    FROM w WHERE w.worker IS NOT NULL
)
SELECT worker FROM w WHERE worker IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers r WHERE r.id = w.worker);
