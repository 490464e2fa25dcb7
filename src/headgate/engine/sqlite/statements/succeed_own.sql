-- Attempts that succeeded: succeed.sql for jobs that this process claimed itself, so that it knows their numbers.
-- ?1 JSON array of [seq, attempt, result, id]  ?2 worker  ?3 now  ?4 default retention
-- Writes: jobs by rowid; jobs_running, jobs_expiry.
UPDATE jobs
SET state = 'succeeded', outcome = 'succeeded', ended_at = ?3, result = r.value ->> 2,
    expires_at = ?3 + coalesce(retention, ?4)
FROM json_each(?1) r
WHERE jobs.seq = r.value ->> 0 AND +jobs.id = r.value ->> 3 AND jobs.attempt = r.value ->> 1
      AND +jobs.worker = ?2 AND +jobs.state = 'running';
