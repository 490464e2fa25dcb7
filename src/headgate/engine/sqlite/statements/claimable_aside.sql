-- The next ready jobs of one queue and task that other workers set aside.   ?1 queue  ?2 task  ?3 how many
-- ?4 gravity
-- Reads: jobs_aside, in index order.
SELECT seq, id, task, queue, args, tenant, priority, due, attempt, tries, retry, timeout, metadata, enqueued_at,
       progress, uses, offered_by, units, refusals, suspicion
FROM jobs
WHERE state = 'ready' AND set_aside = 1 AND gravity = ?4 AND queue = ?1 AND task = ?2
ORDER BY priority, due, seq
LIMIT ?3;
