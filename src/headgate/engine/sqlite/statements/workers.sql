-- The registered workers with how much each runs.
-- Reads: workers, jobs_running.
SELECT id, tasks, queues, lease, host, pid, concurrency, registered_at, lease_until,
       (SELECT count(*) FROM jobs WHERE state = 'running' AND worker = workers.id)
FROM workers ORDER BY id;
