-- A whole job by arrival number.   ?1 seq
-- Reads: jobs by rowid.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after
FROM jobs WHERE seq = ?1;
