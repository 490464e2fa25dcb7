-- Every field of a job that can change.   ?1 … ?22 in the order below, ?23 seq
-- Writes: jobs by rowid, and the indexes of the states that it leaves and enters.
UPDATE jobs
SET due = ?1, state = ?2, retry = ?3, waiting_on = ?4, offered_by = ?5, units = ?6, refusals = ?7, set_aside = ?8,
    attempt = ?9, tries = ?10, worker = ?11, started_at = ?12, ended_at = ?13, outcome = ?14, cancel_requested = ?15,
    error = ?16, result = ?17, progress = ?18, expires_at = ?19,
    suspicion = ?20, gravity = min(?20, 3), lost = ?21, lost_after = ?22
WHERE seq = ?23;
