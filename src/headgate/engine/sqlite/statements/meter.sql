-- What was spent of a rate key.   ?1 key
SELECT full_at FROM meters WHERE key = ?1;
