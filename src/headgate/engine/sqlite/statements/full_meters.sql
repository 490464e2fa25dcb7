-- Buckets that are full again.   ?1 now  ?2 how many
-- Reads: meters_full.
SELECT key FROM meters WHERE full_at <= ?1 ORDER BY full_at LIMIT ?2;
