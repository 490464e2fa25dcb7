-- One attempt that succeeded, fenced by worker and attempt: succeed_own.sql for a handful.
-- ?1 seq  ?2 attempt  ?3 result  ?4 worker  ?5 now  ?6 default retention
-- Writes: jobs by rowid; jobs_running, jobs_expiry.
UPDATE jobs
SET state = 'succeeded', outcome = 'succeeded', ended_at = ?5, result = ?3, expires_at = ?5 + coalesce(retention, ?6)
WHERE seq = ?1 AND attempt = ?2 AND +worker = ?4 AND +state = 'running';
