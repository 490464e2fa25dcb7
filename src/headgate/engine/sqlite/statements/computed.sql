-- The number computed for one key, and when.   ?1 key
-- Reads: computed by primary key.
SELECT max, at FROM computed WHERE key = ?1;
