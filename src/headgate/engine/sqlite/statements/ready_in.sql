-- Ready jobs of a queue whose name is no text.   ?1 queue (as bytes)  ?2 gravity
-- Reads: jobs_ready.
SELECT seq FROM jobs WHERE state = 'ready' AND set_aside = 0 AND gravity = ?2 AND queue = CAST(?1 AS TEXT) LIMIT 1000;
