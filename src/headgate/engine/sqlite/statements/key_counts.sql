-- How many hold a key and how many wait on it.   ?1 key
SELECT (SELECT count(*) FROM holders WHERE key = ?1),
       (SELECT count(*) FROM jobs WHERE state = 'waiting' AND waiting_on = ?1);
