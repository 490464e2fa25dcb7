-- Workers.

-- name: exchange
-- One step of a worker (functions/110_exchange.sql); arrays travel as texts (wire.Numbers, wire.Texts).
SELECT place, id, number, task, queue, args, tenant, priority, tries, retry, timeout, metadata, enqueued, progress,
       suspicion, readable, at, leased, last, refused::text[], cancelling, next_due, more, wake, ended, again, set_aside,
       headers, parked, keys
FROM headgate.exchange($1, $2::text::text[], $3::text::integer[], $4::text::text[], $5::text::text[],
                       $6::text::bigint[], $7, $8, $9, $10, $11,
                       $12::text::bigint[], $13, $14, $15, $16, $17);

-- name: workers
-- The registered workers with how much each runs.   Reads: workers, live_running.
SELECT id, tasks, threaded, queues, lease, host, pid, concurrency, registered_at, lease_until,
       (SELECT count(*) FROM headgate.live j WHERE j.state = 'running' AND j.worker = w.id)
FROM headgate.workers w ORDER BY id;
