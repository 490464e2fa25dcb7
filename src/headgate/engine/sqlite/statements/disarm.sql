-- Clear the timer of a rate key.   ?1 key
DELETE FROM timers WHERE key = ?1;
