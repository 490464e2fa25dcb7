-- Jobs of tasks that the claiming worker does not know.   ?1 JSON array of seq
-- Writes: jobs by rowid; jobs_ready, jobs_aside, jobs_offered.
UPDATE jobs SET set_aside = 1, offered_by = NULL, units = 0 WHERE seq IN (SELECT value FROM json_each(?1));
