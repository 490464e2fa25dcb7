-- The keys that a pending job has reserved.   ?1 seq
-- Reads: holders_job.
SELECT key FROM holders WHERE job = ?1;
