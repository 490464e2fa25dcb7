-- What the workers with a lease serve and know.   ?1 now
SELECT id, queues, tasks FROM workers WHERE lease_until > ?1;
