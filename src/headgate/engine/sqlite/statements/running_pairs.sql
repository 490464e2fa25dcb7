-- What a worker runs, attempt by attempt.   ?1 worker
-- Reads: jobs_running.
SELECT seq, id, attempt FROM jobs WHERE state = 'running' AND worker = CAST(?1 AS TEXT) ORDER BY seq;
