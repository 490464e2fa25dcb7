-- Ended jobs past their retention.   ?1 now  ?2 how many
-- Reads: jobs_expiry.
SELECT seq FROM jobs WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2;
