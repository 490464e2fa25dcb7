-- What keys have promised to ready jobs of queues.   ?1 JSON array of [key, queue]
-- Reads: jobs_offered alone (it covers the sum).
SELECT k.value ->> 0, k.value ->> 1,
       (SELECT coalesce(sum(j.units), 0) FROM jobs j WHERE j.offered_by = k.value ->> 0 AND j.queue = k.value ->> 1)
FROM json_each(?1) k;
