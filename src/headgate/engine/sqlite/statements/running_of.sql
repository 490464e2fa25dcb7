-- What a worker runs.   ?1 worker  ?2 how many
-- Reads: jobs_running.
SELECT seq FROM jobs WHERE state = 'running' AND worker = ?1 ORDER BY seq LIMIT ?2;
