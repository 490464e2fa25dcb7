-- A deleted job's history.   ?1 seq
DELETE FROM attempts WHERE job = ?1;
