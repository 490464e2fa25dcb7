-- The first waiters of a queue on a key, with all that a claim in the same step needs.   ?1 key  ?2 queue  ?3 how many
-- Reads: jobs_waiting, in index order.
SELECT seq, id, task, queue, args, tenant, priority, due, attempt, tries, retry, timeout, metadata, enqueued_at,
       progress, uses, waiting_on, units, refusals, suspicion
FROM jobs
WHERE state = 'waiting' AND waiting_on = ?1 AND queue = ?2
ORDER BY priority, due, seq
LIMIT ?3;
