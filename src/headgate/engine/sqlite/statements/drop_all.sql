-- All that a job holds, for one whose keys cannot be read.   ?1 seq
-- Writes: holders, looking at every record.
DELETE FROM holders WHERE job = ?1 RETURNING key;
