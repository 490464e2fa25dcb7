-- The next ready jobs of one queue.   ?1 queue  ?2 how many  ?3 gravity
-- Reads: jobs_ready, in index order.
SELECT seq, id, task, queue, args, tenant, priority, due, attempt, tries, retry, timeout, metadata, enqueued_at,
       progress, uses, offered_by, units, refusals, suspicion
FROM jobs
WHERE state = 'ready' AND set_aside = 0 AND gravity = ?3 AND queue = ?1
ORDER BY priority, due, seq
LIMIT ?2;
