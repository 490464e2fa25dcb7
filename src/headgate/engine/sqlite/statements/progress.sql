-- A running attempt's progress, fenced.   ?1 id  ?2 attempt  ?3 worker  ?4 value
-- Writes: jobs through its unique index on id.
UPDATE jobs SET progress = ?4 WHERE id = ?1 AND attempt = ?2 AND worker = ?3 AND state = 'running';
