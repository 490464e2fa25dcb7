-- What a worker runs.   ?1 worker
-- Reads: jobs_running.
SELECT seq FROM jobs WHERE state = 'running' AND worker = CAST(?1 AS TEXT) ORDER BY seq;
