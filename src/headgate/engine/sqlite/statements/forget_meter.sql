-- A bucket that is full, or that a window has taken the place of.   ?1 key
DELETE FROM meters WHERE key = ?1;
