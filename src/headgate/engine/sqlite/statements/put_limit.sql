-- A declared limit.   ?1 name ?2 kind ?3 max ?4 period ?5 burst ?6 algorithm
INSERT OR REPLACE INTO limits (name, kind, max, period, burst, algorithm) VALUES (?1, ?2, ?3, ?4, ?5, ?6);
