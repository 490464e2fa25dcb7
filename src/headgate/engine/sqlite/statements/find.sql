-- Jobs that match, newest first. A NULL parameter does not matter.
-- ?1 states (JSON) ?2 queue ?3 task ?4 tenant ?5 waiting_on (JSON) ?6 ids (JSON) ?7 unique ?8 before seq ?9 how many
-- Reads: jobs from its end; stops as soon as it has enough.
SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key, metadata,
       retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
       outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after
FROM jobs
WHERE (?1 IS NULL OR state IN (SELECT value FROM json_each(?1)))
  AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3) AND (?4 IS NULL OR tenant = ?4)
  AND (?5 IS NULL OR waiting_on IN (SELECT value FROM json_each(?5))) AND (?6 IS NULL OR id IN (SELECT value FROM json_each(?6)))
  AND (?7 IS NULL OR unique_key = ?7) AND seq < ?8
ORDER BY seq DESC
LIMIT ?9;
