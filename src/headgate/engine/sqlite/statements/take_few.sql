-- One holder record: take.sql for a handful.   ?1 key  ?2 seq  ?3 reserved  ?4 now
-- Writes: holders.
INSERT OR REPLACE INTO holders (key, job, since, reserved) VALUES (?1, ?2, ?4, ?3);
