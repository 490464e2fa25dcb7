-- When retention next has work, and when idle rate keys and computed numbers can be forgotten.
-- ?1 how long computed numbers are kept
-- Reads: the first entry of each index.
SELECT (SELECT CAST(min(expires_at) AS INTEGER) FROM jobs WHERE expires_at IS NOT NULL),
       (SELECT min(full_at) FROM meters),
       (SELECT min(gone_at) FROM starts),
       (SELECT min(at) + ?1 FROM computed);
