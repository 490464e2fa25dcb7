-- How many hold keys of a range.   ?1 first key  ?2 below which key
-- Reads: holders by primary key.
SELECT count(*) FROM holders WHERE key >= ?1 AND key < ?2;
