-- Set the timer of a rate key.   ?1 key  ?2 time
INSERT INTO timers (key, at) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET at = ?2;
