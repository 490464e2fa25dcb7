-- Workers whose lease has run out.   ?1 now
-- Reads: workers_lease.
SELECT id FROM workers WHERE lease_until <= ?1 ORDER BY id;
