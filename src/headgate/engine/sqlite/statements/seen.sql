-- When a worker last proved to be alive, and its lease.   ?1 worker
-- Reads: workers by primary key.
SELECT lease_until - lease, lease FROM workers WHERE id = ?1;
