-- One attempt that succeeded, fenced by worker and attempt: succeed_own.sql for a handful.
-- ?1 seq  ?2 attempt  ?3 result  ?4 id  ?5 worker  ?6 now  ?7 default retention
-- Writes: jobs by rowid; jobs_running, jobs_expiry.
UPDATE jobs
SET state = 'succeeded', outcome = 'succeeded', ended_at = ?6, result = ?3, expires_at = ?6 + coalesce(retention, ?7)
WHERE seq = ?1 AND +id = ?4 AND attempt = ?2 AND +worker = ?5 AND +state = 'running';
