-- Whether any job is set aside.
-- Reads: jobs_aside.
SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside = 1 LIMIT 1;
