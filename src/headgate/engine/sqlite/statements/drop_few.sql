-- One job lets go of everything it holds: drop.sql for a handful.   ?1 seq
-- Writes: holders through holders_job.
DELETE FROM holders WHERE job = ?1 RETURNING key;
