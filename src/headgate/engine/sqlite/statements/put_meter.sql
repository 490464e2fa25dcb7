-- Remember what was spent of a rate key.   ?1 key  ?2 full_at
INSERT INTO meters (key, full_at) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET full_at = ?2;
