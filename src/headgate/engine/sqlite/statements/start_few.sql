-- One claimed job runs: start.sql for a handful, where JSON costs more than it saves.   ?1 seq  ?2 worker  ?3 now
-- Writes: jobs by rowid; jobs_ready, jobs_waiting, jobs_offered, jobs_running.
UPDATE jobs
SET state = 'running', worker = ?2, attempt = attempt + 1, tries = tries + 1, started_at = ?3, error = NULL,
    waiting_on = NULL, offered_by = NULL, units = 0, set_aside = 0
WHERE seq = ?1;
