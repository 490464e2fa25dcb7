-- When retention next has work, and how long idle rate keys have been full.
-- Reads: the first entry of each index.
SELECT (SELECT min(expires_at) FROM jobs WHERE expires_at IS NOT NULL),
       (SELECT min(full_at) FROM meters),
       (SELECT min(at) FROM starts);
