-- Starts that a window no longer sees, or that a bucket has taken the place of.   ?1 key  ?2 until
-- Writes: starts through starts_key.
DELETE FROM starts WHERE key = ?1 AND at <= ?2;
