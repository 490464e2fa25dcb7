-- For each key: the queues that have waiters, with what the key has promised in each, how many hold it, and the first
-- waiter. One index step per queue, however many wait.   ?1 JSON array of keys
-- Reads: jobs_waiting, jobs_offered, holders by primary key, the first waiters by rowid.
WITH RECURSIVE q(key, queue) AS (
    SELECT k.value, (SELECT min(j.queue) FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on = k.value)
    FROM json_each(?1) k
    UNION ALL
    SELECT q.key, (SELECT min(j.queue) FROM jobs j
                   WHERE j.state = 'waiting' AND j.waiting_on = q.key AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL
)
SELECT (SELECT coalesce(sum(o.units), 0) FROM jobs o WHERE o.offered_by = q.key AND o.queue = q.queue),
       (SELECT count(*) FROM holders h WHERE h.key = q.key),
       w.seq, w.id, w.task, w.queue, w.args, w.tenant, w.priority, w.due, w.attempt, w.tries, w.retry, w.timeout,
       w.metadata, w.enqueued_at, w.progress, w.uses, w.waiting_on, w.units, w.refusals, w.suspicion
FROM q CROSS JOIN jobs w
WHERE w.seq = (SELECT f.seq FROM jobs f WHERE f.state = 'waiting' AND f.waiting_on = q.key AND f.queue = q.queue
               ORDER BY f.priority, f.due, f.seq LIMIT 1);
