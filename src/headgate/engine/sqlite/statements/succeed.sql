-- Attempts that succeeded, fenced by worker and attempt.
-- ?1 JSON array of [id, attempt, result]  ?2 worker  ?3 now  ?4 default retention
-- Writes: jobs through its unique index on id (the + keeps the planner from jobs_running); jobs_running, jobs_expiry.
UPDATE jobs
SET state = 'succeeded', outcome = 'succeeded', ended_at = ?3, result = r.value ->> 2,
    expires_at = ?3 + coalesce(retention, ?4)
FROM json_each(?1) r
WHERE jobs.id = r.value ->> 0 AND jobs.attempt = r.value ->> 1 AND +jobs.worker = ?2 AND +jobs.state = 'running'
RETURNING jobs.seq;
