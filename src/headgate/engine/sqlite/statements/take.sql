-- Holder records.   ?1 JSON array of [key, seq, reserved]  ?2 now
-- A reservation turns into a slot by being written again. Writes: holders.
INSERT OR REPLACE INTO holders (key, job, since, reserved)
SELECT value ->> 0, value ->> 1, ?2, value ->> 2 FROM json_each(?1);
