-- Take an override back.   ?1 name  ?2 value  ?3 tenant
DELETE FROM overrides WHERE name = ?1 AND value IS ?2 AND tenant IS ?3;
