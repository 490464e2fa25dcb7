-- A handful of claimed jobs run: start.sql where JSON costs more than it saves.   ? worker  ? now  ?* seqs
-- Writes: jobs by rowid; jobs_ready, jobs_waiting, jobs_offered, jobs_running.
UPDATE jobs
SET state = 'running', worker = ?, attempt = attempt + 1, tries = tries + 1, started_at = ?, error = NULL,
    waiting_on = NULL, offered_by = NULL, units = 0, set_aside = 0
WHERE seq IN (?*);
