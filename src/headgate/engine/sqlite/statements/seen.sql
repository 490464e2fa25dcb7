-- When a worker last proved to be alive, and its lease.   ?1 worker
-- Reads: workers by primary key.
SELECT CAST(lease_until - lease AS INTEGER), CAST(lease AS INTEGER) FROM workers WHERE id = CAST(?1 AS TEXT);
