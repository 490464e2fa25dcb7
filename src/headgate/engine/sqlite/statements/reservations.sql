-- Which of its keys a pending job has reserved.   ?1 seq  ?2 JSON array of keys
-- Reads: holders by primary key.
SELECT key FROM holders WHERE job = ?1 AND key IN (SELECT value FROM json_each(?2));
