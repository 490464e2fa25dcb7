-- Jobs that a worker runs and that were asked to stop.   ?1 worker
-- Reads: jobs_running.
SELECT id FROM jobs WHERE state = 'running' AND worker = ?1 AND cancel_requested = 1;
