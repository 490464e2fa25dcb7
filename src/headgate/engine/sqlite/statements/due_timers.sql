-- Rate keys whose timer has come.   ?1 now  ?2 how many
-- Reads: timers_at.
SELECT key FROM timers WHERE at <= ?1 ORDER BY at LIMIT ?2;
