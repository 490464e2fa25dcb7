-- Scheduled jobs that are due; those with a due time that is no number stand behind all others.   ?1 now  ?2 how many
-- Reads: jobs_scheduled, in index order.
SELECT * FROM (SELECT seq FROM jobs WHERE state = 'scheduled' AND due <= ?1 ORDER BY due, seq LIMIT ?2)
UNION ALL SELECT * FROM (SELECT seq FROM jobs WHERE state = 'scheduled' AND due >= '' LIMIT 10);
