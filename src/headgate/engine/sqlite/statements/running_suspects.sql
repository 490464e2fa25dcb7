-- The suspects that a worker runs, as blame sees them.   ?1 worker
-- Reads: jobs_running.
SELECT suspicion, lost, lost_after, started_at FROM jobs WHERE state = 'running' AND worker = ?1 AND suspicion > 0;
