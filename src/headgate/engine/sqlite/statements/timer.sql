-- When the timer of a rate key rings.   ?1 key
-- Reads: timers by primary key.
SELECT at FROM timers WHERE key = ?1;
