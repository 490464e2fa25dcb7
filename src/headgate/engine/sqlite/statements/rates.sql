-- What was spent of rate keys, and their timers.

-- name: meter
-- What was spent of a rate key.   ?1 key
SELECT full_at, since, refunded FROM meters WHERE key = ?1;

-- name: put_meter
-- Remember what was spent of a rate key.   ?1 key  ?2 full_at  ?3 since  ?4 refunded
INSERT INTO meters (key, full_at, since, refunded) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (key) DO UPDATE SET full_at = ?2, since = ?3, refunded = ?4;

-- name: forget_meter
-- A bucket that is full, or that a window has taken the place of.   ?1 key
DELETE FROM meters WHERE key = ?1;

-- name: forget_full_meters
-- Buckets that are full again.   ?1 now  ?2 how many
-- Writes: meters by primary key, found through meters_full.
DELETE FROM meters WHERE key IN (SELECT key FROM meters WHERE full_at <= ?1 ORDER BY full_at LIMIT ?2);

-- name: starts
-- The starts that an exact window still sees.   ?1 key  ?2 since
-- Reads: starts_key, in index order.
SELECT at, units FROM starts WHERE key = ?1 AND at > ?2 ORDER BY at;

-- name: put_start
-- One start in an exact window.   ?1 key  ?2 at  ?3 units  ?4 when it leaves the window
INSERT INTO starts (key, at, units, gone_at) VALUES (?1, ?2, ?3, ?4);

-- name: forget_start
-- One start was not what it was taken for.   ?1 key  ?2 at  ?3 units
-- Writes: starts by rowid, found through starts_key.
DELETE FROM starts WHERE rowid = (SELECT rowid FROM starts WHERE key = ?1 AND at = ?2 AND units = ?3 LIMIT 1);

-- name: forget_starts
-- Starts that a window no longer sees, or that a bucket has taken the place of.   ?1 key  ?2 until
-- Writes: starts through starts_key.
DELETE FROM starts WHERE key = ?1 AND at <= ?2;

-- name: old_starts
-- Starts that were to have left their window by now.   ?1 now  ?2 how many
-- Reads: starts_gone.
SELECT rowid, key, at FROM starts WHERE gone_at <= ?1 ORDER BY gone_at LIMIT ?2;

-- name: keep_start
-- A start whose window has become longer.   ?1 rowid  ?2 when it leaves the window
UPDATE starts SET gone_at = ?2 WHERE rowid = ?1;

-- name: forget_old_starts
-- Starts that have left their window.   ?1 now  ?2 how many
-- Writes: starts by rowid, found through starts_gone.
DELETE FROM starts WHERE rowid IN (SELECT rowid FROM starts WHERE gone_at <= ?1 ORDER BY gone_at LIMIT ?2);

-- name: timer
-- When the timer of a timed key rings.   ?1 key
-- Reads: timers by primary key.
SELECT at FROM timers WHERE key = ?1;

-- name: arm
-- Set the timer of a timed key.   ?1 key  ?2 time
INSERT INTO timers (key, at) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET at = ?2;

-- name: disarm
-- Clear the timer of a timed key.   ?1 key
DELETE FROM timers WHERE key = ?1;

-- name: due_timers
-- Keys whose timer has come.   ?1 now  ?2 how many
-- Reads: timers_at.
SELECT key FROM timers WHERE at <= ?1 ORDER BY at LIMIT ?2;
