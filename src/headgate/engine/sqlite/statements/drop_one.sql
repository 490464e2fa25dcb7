-- A job lets go of one key, if it holds it.   ?1 key  ?2 seq
-- Writes: holders by primary key.
DELETE FROM holders WHERE key = ?1 AND job = ?2;
