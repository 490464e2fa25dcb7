-- When a sweep will next have work (retention aside: it can wait for any sweep).
-- Reads: the first entry of each index.
SELECT (SELECT min(due) FROM jobs WHERE state = 'scheduled'),
       (SELECT min(at) FROM timers),
       (SELECT min(lease_until) FROM workers),
       (SELECT min(expires_at) FROM holders WHERE expires_at IS NOT NULL),
       (SELECT min(until) FROM overrides WHERE until IS NOT NULL);
