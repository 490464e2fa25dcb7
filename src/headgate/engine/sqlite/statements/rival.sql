-- The unfinished job with a unique key.   ?1 tenant  ?2 unique key
-- Reads: jobs_unique.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after
FROM jobs
WHERE tenant = ?1 AND unique_key = ?2 AND unique_key IS NOT NULL
  AND state IN ('scheduled', 'ready', 'waiting', 'running');
