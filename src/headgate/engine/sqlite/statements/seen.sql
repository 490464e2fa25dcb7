-- When a worker last proved to be alive.   ?1 worker
-- Reads: workers by primary key.
SELECT lease_until - lease FROM workers WHERE id = ?1;
