-- How many hold keys of a range, up to a number.   ?1 first key  ?2 below which key  ?3 how many to count
-- Reads: holders by primary key.
SELECT count(*) FROM (SELECT 1 FROM holders WHERE key >= ?1 AND key < ?2 LIMIT ?3);
