-- All jobs that wait on a key, for one that is garbled.   ?1 key
-- Reads: jobs_waiting.
SELECT seq FROM jobs WHERE state = 'waiting' AND waiting_on = CAST(?1 AS TEXT);
