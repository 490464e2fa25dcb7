-- Reading jobs.

-- name: get
-- Whole jobs with their history.   $1 ids
-- Reads: jobs_id, attempts by primary key.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units::text[], retry, timeout,
       unique_key, metadata, retention, waiting_on, units, attempt, tries, worker, started_at, ended_at, outcome,
       cancel_requested, error, result, progress, headgate._history(j.seq), suspicion, lost, headers,
       share, tag, start_by, use_numbers::text[]
FROM headgate._jobs j WHERE j.id = ANY ($1);

-- name: states
-- Only the states.   $1 ids
SELECT id, state FROM headgate._states($1);

-- name: find
-- Jobs that match, newest first.   $1 states  $2 queue  $3 task  $4 tenant  $5 ids  $6 unique  $7 error
-- $8 ended since  $9 and until  $10 after  $11 how many
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units::text[], retry, timeout,
       unique_key, metadata, retention, waiting_on, units, attempt, tries, worker, started_at, ended_at, outcome,
       cancel_requested, error, result, progress, NULL::text AS past, suspicion, lost, headers,
       share, tag, start_by, use_numbers::text[]
FROM headgate._jobs j WHERE seq = ANY (ARRAY(
    SELECT f.seq FROM headgate._find($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS f))
ORDER BY j.seq DESC LIMIT $11;

-- name: newest
-- Which jobs a page looks at: the newest ones of some states, before those of the pages that came before.
-- $1 states (NULL: all)  $2 ended since  $3 and until  $4 after  $5 how many
SELECT f.seq FROM headgate._find($1, NULL, NULL, NULL, NULL, NULL, NULL, $2, $3, $4, $5) AS f ORDER BY f.seq DESC LIMIT $5;

-- name: find_among
-- Those of some jobs that match, newest first.   $1 their numbers  $2 queue  $3 task  $4 tenant  $5 unique  $6 error
-- $7 how many
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units::text[], retry, timeout,
       unique_key, metadata, retention, waiting_on, units, attempt, tries, worker, started_at, ended_at, outcome,
       cancel_requested, error, result, progress, NULL::text AS past, suspicion, lost, headers,
       share, tag, start_by, use_numbers::text[]
FROM headgate._jobs j
WHERE j.seq = ANY ($1::bigint[]) AND ($2::text IS NULL OR j.queue = $2) AND ($3::text IS NULL OR j.task = $3)
  AND ($4::text IS NULL OR j.tenant = $4) AND ($5::text IS NULL OR j.unique_key = $5)
  AND ($6::text IS NULL OR headgate._says(j.error, $6))
ORDER BY j.seq DESC LIMIT $7;

-- name: id_of
-- The id of a job.   $1 its number
SELECT id FROM headgate.jobs WHERE seq = $1;

-- name: find_waiting
-- The same of the jobs that wait on a key, or on any of a limit.   $1 the text of the key, or the name  $2 queue  $3 task
-- $4 tenant  $5 ids  $6 unique  $7 error  $8 after  $9 how many
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units::text[], retry, timeout,
       unique_key, metadata, retention, waiting_on, units, attempt, tries, worker, started_at, ended_at, outcome,
       cancel_requested, error, result, progress, NULL::text AS past, suspicion, lost, headers,
       share, tag, start_by, use_numbers::text[]
FROM headgate._live_jobs j WHERE seq = ANY (ARRAY(
    SELECT w.seq FROM headgate._waiting_for($1, $2, $3, $4, $5, $6, $7, coalesce(
        (SELECT a.seq FROM headgate.jobs a WHERE a.id = $8), 9223372036854775807), $9) AS w))
ORDER BY j.seq DESC;

-- name: count
-- How many match.   $1 states  $2 queue  $3 task  $4 tenant  $5 ids  $6 unique  $7 error
-- $8 ended since  $9 and until
SELECT count(*) FROM headgate._jobs j
WHERE ($1::text[] IS NULL OR j.state = ANY ($1)) AND ($2::text IS NULL OR j.queue = $2) AND ($3::text IS NULL
    OR j.task = $3)
  AND ($4::text IS NULL OR j.tenant = $4)
  AND ($5::text[] IS NULL OR j.id = ANY ($5))
  AND ($6::text IS NULL OR j.unique_key = $6)
  AND ($7::text IS NULL OR headgate._says(j.error, $7))
  AND ($8::bigint IS NULL OR j.ended_at >= $8) AND ($9::bigint IS NULL OR j.ended_at < $9);

-- name: count_waiting
-- How many of them there are.   $1 the text of the key, or the name  $2 queue  $3 task  $4 tenant  $5 ids  $6 unique
-- $7 error
SELECT count(*) FROM headgate._waiting_for($1, $2, $3, $4, $5, $6, $7, 9223372036854775807, NULL);
