-- Jobs by id and number: how they are stored, changed and deleted.

-- name: insert_job
-- New jobs in the state that admission gave them. `taken` is the unique key: all are unfinished.
-- Writes: jobs, its unique index on id, and the index of its state.
INSERT INTO jobs (id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key,
                  metadata, retention, waiting_on, offered_by, units, refusals, headers, taken)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_with_extras
-- Likewise of jobs that have more to be remembered than most (jobs.extras), or have ended.
-- Writes: jobs and its indexes.
INSERT INTO jobs (id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key,
                  metadata, retention, waiting_on, offered_by, units, refusals, headers,
                  share, charge, unique_for, taken, tag, start_by, unique_until, updates, extras, late_at, share_line,
                  queue_line)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: save_job
-- Every field of a job that can change.   ?1 … ?23 in the order below, ?24 seq
-- Writes: jobs by rowid, and the indexes of the states that it leaves and enters.
UPDATE jobs
SET due = ?1, state = ?2, retry = ?3, waiting_on = ?4, offered_by = ?5, units = ?6, refusals = ?7, set_aside = ?8,
    attempt = ?9, tries = ?10, worker = ?11, started_at = ?12, ended_at = ?13, outcome = ?14, cancel_requested = ?15,
    error = ?16, result = ?17, progress = ?18, expires_at = ?19,
    suspicion = ?20, gravity = min(?20, 3), lost = ?21, lost_after = ?22, taken = ?23
WHERE seq = ?24;

-- name: save_extras
-- What can change besides, of a job that has more to be remembered than most.   ?1 … ?8 in the order below, ?9 seq
-- Writes: jobs by rowid; jobs_late, jobs_shares, jobs_backlog, and the lines by their tag.
UPDATE jobs
SET tag = ?1, start_by = ?2, unique_until = ?3, updates = ?4, extras = ?5, late_at = ?6, share_line = ?7, queue_line = ?8
WHERE seq = ?9;

-- name: save_arguments
-- What a restarted or updated job is given instead of what it had.
-- ?1 seq  ?2 args  ?3 uses (JSON)  ?4 metadata  ?5 headers  ?6 share
-- Writes: jobs by rowid.
UPDATE jobs SET args = ?2, uses = ?3, metadata = ?4, headers = ?5, share = ?6 WHERE seq = ?1;

-- name: job_by_id
-- A whole job by id.   ?1 id
-- Reads: jobs through its unique index on id.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after, headers, tag, start_by,
       share, charge, unique_for, unique_until, updates, spent, extras
FROM jobs WHERE id = ?1;

-- name: job_by_seq
-- A whole job by arrival number.   ?1 seq
-- Reads: jobs by rowid.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after, headers, tag, start_by,
       share, charge, unique_for, unique_until, updates, spent, extras
FROM jobs WHERE seq = ?1;

-- name: existing
-- Which ids are taken.   ?1 JSON array of ids
-- Reads: the unique index on id.
SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?1));

-- name: seq_of
-- The arrival number of a job.   ?1 id
SELECT seq FROM jobs WHERE id = ?1;

-- name: rival
-- The job that has taken a unique key.   ?1 tenant  ?2 unique key
-- Reads: jobs_unique.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after, headers, tag, start_by,
       share, charge, unique_for, unique_until, updates, spent, extras
FROM jobs
WHERE tenant = ?1 AND taken = ?2 AND taken IS NOT NULL;

-- name: delete_job
-- A deleted job.   ?1 seq
DELETE FROM jobs WHERE seq = ?1;

-- name: end_unreadable
-- A job whose row cannot be read ends; what is garbled stays for people to look at, but for the id: a row that cannot be
-- named cannot be deleted.   ?1 seq  ?2 why  ?3 now  ?4 expires_at  ?5 new id (NULL: it stays)
-- Writes: jobs by rowid, and the indexes of the state that it leaves.
UPDATE jobs
SET id = coalesce(?5, id), state = 'failed', outcome = NULL, error = ?2, ended_at = ?3, expires_at = ?4, waiting_on = NULL, offered_by = NULL,
    units = 0, set_aside = 0, worker = NULL, refusals = NULL, suspicion = 0, gravity = 0,
    taken = NULL, late_at = NULL, share_line = NULL, queue_line = NULL
WHERE seq = ?1;

-- name: expired
-- Ended jobs past their retention, also those whose retention ends at no time at all, or whose state is none.
-- ?1 now  ?2 how many
-- Reads: jobs_ended, one step per state.
WITH RECURSIVE s(state) AS (
    SELECT min(state) FROM jobs WHERE expires_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(j.state) FROM jobs j WHERE j.expires_at IS NOT NULL AND j.state > s.state)
    FROM s WHERE s.state IS NOT NULL
)
SELECT * FROM (SELECT j.seq FROM s CROSS JOIN jobs j INDEXED BY jobs_ended
               WHERE j.state = s.state AND j.expires_at IS NOT NULL AND j.expires_at <= ?1 LIMIT ?2)
UNION ALL
SELECT * FROM (SELECT j.seq FROM s CROSS JOIN jobs j INDEXED BY jobs_ended
               WHERE j.state = s.state AND j.expires_at IS NOT NULL AND j.expires_at >= '' LIMIT 10);
