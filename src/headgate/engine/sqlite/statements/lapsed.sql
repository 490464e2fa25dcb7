-- Workers whose lease has run out.   ?1 now
-- Reads: workers_lease; sorts the few that have lapsed.
SELECT id FROM workers INDEXED BY workers_lease WHERE lease_until <= ?1 ORDER BY id;
