-- Move the last tick.   ?1 task  ?2 at
INSERT INTO ticks (task, at) VALUES (?1, ?2) ON CONFLICT (task) DO UPDATE SET at = ?2;
