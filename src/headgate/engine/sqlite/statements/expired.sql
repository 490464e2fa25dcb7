-- Ended jobs past their retention, also those whose retention ends at no time at all.   ?1 now  ?2 how many
-- Reads: jobs_expiry.
SELECT * FROM (SELECT seq FROM jobs WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
UNION ALL SELECT * FROM (SELECT seq FROM jobs WHERE expires_at IS NOT NULL AND expires_at >= '' LIMIT 10);
