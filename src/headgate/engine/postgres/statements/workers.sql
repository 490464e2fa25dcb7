-- The registered workers with how much each runs.   Reads: workers, live_running.
SELECT id, tasks, queues, lease, host, pid, concurrency, registered_at, lease_until,
       (SELECT count(*) FROM headgate.live j WHERE j.state = 'running' AND j.worker = w.id)
FROM headgate.workers w ORDER BY id;
