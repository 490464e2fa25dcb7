-- One start in an exact window.   ?1 key  ?2 at  ?3 units
INSERT INTO starts (key, at, units) VALUES (?1, ?2, ?3);
