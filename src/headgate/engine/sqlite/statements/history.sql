-- The small history of what workers did.

-- name: add_done
-- Add to a row of the history.   ?1 at ?2 queue ?3 task ?4 started ?5 succeeded ?6 failed ?7 retried ?8 cancelled
-- ?9 waited ?10 longest ?11 ran
-- Writes: history by primary key.
INSERT INTO history (at, queue, task, started, succeeded, failed, retried, cancelled, waited, longest, ran)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (at, queue, task) DO UPDATE
SET started = started + ?4, succeeded = succeeded + ?5, failed = failed + ?6, retried = retried + ?7,
    cancelled = cancelled + ?8, waited = waited + ?9, longest = max(longest, ?10), ran = ran + ?11;

-- name: history_pairs
-- The rows that a minute has.   ?1 at
-- Reads: history by primary key.
SELECT queue, task FROM history WHERE at = ?1;

-- name: forget_history
-- Rows that are too old.   ?1 before when  ?2 how many
-- Reads: history by primary key.
DELETE FROM history WHERE (at, queue, task) IN (SELECT at, queue, task FROM history WHERE at <= ?1 ORDER BY at LIMIT ?2);

-- name: history
-- What was done from a minute on, by spans of time.   ?1 since  ?2 step  ?3 queue  ?4 task  ?5 whether each is apart
-- Reads: history by primary key.
SELECT at - at % ?2, iif(?5, queue, ''), iif(?5, task, ''), sum(started), sum(succeeded), sum(failed), sum(retried),
       sum(cancelled), sum(waited), max(longest), sum(ran)
FROM history
WHERE at >= ?1 AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR task = ?4)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
