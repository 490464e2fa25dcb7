-- Workers whose lease has run out, or ends at no time at all.   ?1 now
-- Reads: workers_lease; sorts the few that have lapsed.
SELECT id FROM workers INDEXED BY workers_lease WHERE lease_until <= ?1
UNION ALL SELECT id FROM workers INDEXED BY workers_lease WHERE lease_until >= ''
ORDER BY id;
