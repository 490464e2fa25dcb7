-- When a pending job's reservations run out: a time while it is ready, NULL while it waits.
-- ?1 seq  ?2 JSON array of its keys  ?3 time
-- Writes: holders by primary key.
UPDATE holders SET expires_at = ?3 WHERE job = ?1 AND key IN (SELECT value FROM json_each(?2));
