-- How many wait for keys of a range, up to a number.   ?1 first key  ?2 below which key  ?3 how many to count
-- Reads: jobs_waiting.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'waiting' AND waiting_on >= ?1 AND waiting_on < ?2 LIMIT ?3);
