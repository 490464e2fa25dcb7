-- Jobs let go of everything they hold.   ?1 JSON array of seq
-- Writes: holders through holders_job.
DELETE FROM holders WHERE job IN (SELECT value FROM json_each(?1)) RETURNING key;
