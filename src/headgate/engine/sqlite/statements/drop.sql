-- Jobs let go of what they may hold.   ?1 JSON array of [key, seq]
-- Writes: holders by primary key.
DELETE FROM holders WHERE (key, job) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1));
