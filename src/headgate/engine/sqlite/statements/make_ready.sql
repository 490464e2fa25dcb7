-- Waiting jobs are offered their key's room.   ?1 JSON array of [seq, key, units]
-- Writes: jobs by rowid; jobs_waiting, jobs_ready, jobs_offered.
UPDATE jobs
SET state = 'ready', waiting_on = NULL, offered_by = r.value ->> 1, units = r.value ->> 2
FROM json_each(?1) r
WHERE jobs.seq = r.value ->> 0;
