-- How many of its queue stand before a waiting job.   ?1 key ?2 queue ?3 priority ?4 due ?5 seq
-- Reads: jobs_waiting up to the job.
SELECT count(*) FROM jobs
WHERE state = 'waiting' AND waiting_on = ?1 AND queue = ?2 AND (priority, due, seq) < (?3, ?4, ?5);
