-- Reservations whose job was offered and not claimed in time.   ?1 now  ?2 how many
-- Reads: holders_expiry.
SELECT key, job FROM holders WHERE expires_at IS NOT NULL AND expires_at <= ?1 LIMIT ?2;
