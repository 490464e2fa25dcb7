-- What an exchange tells last: the jobs this worker runs that were asked to stop, and when a sweep will next have work
-- (retention aside: it can wait for any sweep).   ?1 worker
-- Reads: jobs_running, the first entry of each index.
SELECT (SELECT json_group_array(id) FROM jobs WHERE state = 'running' AND worker = ?1 AND cancel_requested = 1),
       (SELECT CAST(min(due) AS INTEGER) FROM jobs WHERE state = 'scheduled'),
       (SELECT min(at) FROM timers),
       (SELECT CAST(min(lease_until) AS INTEGER) FROM workers),
       (SELECT min(expires_at) FROM holders WHERE expires_at IS NOT NULL),
       (SELECT min(until) FROM overrides WHERE until IS NOT NULL),
       (SELECT 0 FROM unsettled LIMIT 1);
