-- One start in an exact window.   ?1 key  ?2 at  ?3 units  ?4 when it leaves the window
INSERT INTO starts (key, at, units, gone_at) VALUES (?1, ?2, ?3, ?4);
