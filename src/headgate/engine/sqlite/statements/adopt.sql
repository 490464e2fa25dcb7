-- Running jobs of a task or queue become holders of its new cap.   ?1 key  ?2 now  ?3 task  ?4 queue (one is NULL)
-- Reads: jobs_running, as many as run. Writes: holders.
INSERT OR IGNORE INTO holders (key, job, since, reserved)
SELECT ?1, seq, ?2, 0 FROM jobs
WHERE state = 'running' AND (?3 IS NULL OR task = ?3) AND (?4 IS NULL OR queue = ?4);
