-- How many holders keys have.   ?1 JSON array of keys
-- Reads: holders by primary key.
SELECT k.value, (SELECT count(*) FROM holders h WHERE h.key = k.value) FROM json_each(?1) k;
