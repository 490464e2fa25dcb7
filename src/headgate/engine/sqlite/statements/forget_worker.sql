-- A worker is gone.   ?1 worker
DELETE FROM workers WHERE id = ?1;
