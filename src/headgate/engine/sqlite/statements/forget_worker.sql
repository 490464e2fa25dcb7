-- A worker is gone.   ?1 worker
DELETE FROM workers WHERE id = CAST(?1 AS TEXT);
