-- Scheduled jobs that are due.   ?1 now  ?2 how many
-- Reads: jobs_scheduled, in index order.
SELECT seq FROM jobs WHERE state = 'scheduled' AND due <= ?1 ORDER BY due, seq LIMIT ?2;
