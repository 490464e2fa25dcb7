-- Buckets that are full again.   ?1 now  ?2 how many
-- Writes: meters by primary key, found through meters_full.
DELETE FROM meters WHERE key IN (SELECT key FROM meters WHERE full_at <= ?1 ORDER BY full_at LIMIT ?2);
