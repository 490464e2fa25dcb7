-- When a sweep will next have work (retention aside: it can wait for any sweep): at once where limits have
-- changed whose keys have yet to be looked at.
-- Reads: the first entry of each index.
SELECT (SELECT CAST(min(due) AS INTEGER) FROM jobs WHERE state = 'scheduled'),
       (SELECT min(at) FROM timers),
       (SELECT CAST(min(lease_until) AS INTEGER) FROM workers),
       (SELECT min(expires_at) FROM holders WHERE expires_at IS NOT NULL),
       (SELECT min(until) FROM overrides WHERE until IS NOT NULL),
       (SELECT 0 FROM unsettled LIMIT 1);
