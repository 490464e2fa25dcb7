-- How many wait for keys of a range.   ?1 first key  ?2 below which key
-- Reads: jobs_waiting.
SELECT count(*) FROM jobs WHERE state = 'waiting' AND waiting_on >= ?1 AND waiting_on < ?2;
