-- What a worker runs.   ?1 worker
-- Reads: jobs_running.
SELECT seq FROM jobs WHERE state = 'running' AND worker = ?1 ORDER BY seq;
