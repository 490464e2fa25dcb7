-- A deleted job.   ?1 seq
DELETE FROM jobs WHERE seq = ?1;
