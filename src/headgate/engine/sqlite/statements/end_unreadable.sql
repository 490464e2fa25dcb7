-- A job whose row cannot be read ends; what is garbled stays for people to look at, but for the id: a row that cannot be
-- named cannot be deleted.   ?1 seq  ?2 why  ?3 now  ?4 expires_at  ?5 new id (NULL: it stays)
-- Writes: jobs by rowid, and the indexes of the state that it leaves.
UPDATE jobs
SET id = coalesce(?5, id), state = 'failed', outcome = NULL, error = ?2, ended_at = ?3, expires_at = ?4, waiting_on = NULL, offered_by = NULL,
    units = 0, set_aside = 0, worker = NULL, refusals = NULL, suspicion = 0, gravity = 0
WHERE seq = ?1;
