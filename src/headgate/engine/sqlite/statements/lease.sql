-- A worker's lease and the tasks it knows.   ?1 worker
-- Reads: workers by primary key.
SELECT lease_until, tasks FROM workers WHERE id = ?1;
