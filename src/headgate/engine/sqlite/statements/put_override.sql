-- An override.   ?1 name ?2 max ?3 value ?4 tenant ?5 by ?6 at ?7 why ?8 until
INSERT INTO overrides (name, max, value, tenant, "by", at, why, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);
