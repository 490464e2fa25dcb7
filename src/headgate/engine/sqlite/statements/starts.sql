-- The starts that an exact window still sees.   ?1 key  ?2 since
-- Reads: starts_key, in index order.
SELECT at, units FROM starts WHERE key = ?1 AND at > ?2 ORDER BY at;
