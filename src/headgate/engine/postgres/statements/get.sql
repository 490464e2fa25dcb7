-- Whole jobs with their history.   $1 ids
-- Reads: jobs_id, attempts by primary key.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units::text[], retry, timeout,
       unique_key, metadata, retention, waiting_on, units, attempt, tries, worker, started_at, ended_at, outcome,
       cancel_requested, error, result, progress, headgate._history(j.seq), suspicion, lost
FROM headgate._jobs j WHERE j.id = ANY ($1);
