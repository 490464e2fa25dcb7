-- What must make sense of each worker's row.
SELECT id, queues, lease, lease_until, number, tasks, concurrency FROM workers;
