-- A limit has changed, and its waited-for keys from here on have yet to be looked at.   ?1 name  ?2 key
-- Writes: unsettled by primary key.
INSERT INTO unsettled (name, from_key) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET from_key = min(from_key, excluded.from_key);
