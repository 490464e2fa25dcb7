-- A handful of jobs let go of everything they hold: drop.sql without JSON.   ?* seqs
-- Writes: holders through holders_job.
DELETE FROM holders WHERE job IN (?*) RETURNING key;
