-- The number computed for one key.   ?1 key  ?2 max  ?3 now
INSERT INTO computed (key, max, at) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET max = ?2, at = ?3;
