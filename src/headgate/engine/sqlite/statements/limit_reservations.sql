-- When a pending job's reservations run out: a time while it is ready, NULL while it waits.   ?1 seq  ?2 time
-- Writes: holders through holders_job.
UPDATE holders SET expires_at = ?2 WHERE job = ?1;
