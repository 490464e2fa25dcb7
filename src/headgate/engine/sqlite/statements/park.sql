-- Refused jobs wait.   ?1 JSON array of [seq, key, units, refusals]
-- Writes: jobs by rowid; jobs_ready, jobs_offered, jobs_waiting.
UPDATE jobs
SET state = 'waiting', waiting_on = r.value ->> 1, offered_by = NULL, units = r.value ->> 2,
    refusals = r.value ->> 3, set_aside = 0
FROM json_each(?1) r
WHERE jobs.seq = r.value ->> 0;
