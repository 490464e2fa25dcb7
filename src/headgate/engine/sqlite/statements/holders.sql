-- Who holds which concurrency key, and reservations (rule 7).

-- name: held
-- How many units of keys are held.   ?1 JSON array of keys
-- Reads: holders by primary key.
SELECT k.value, (SELECT coalesce(sum(h.units), 0) FROM holders h WHERE h.key = k.value) FROM json_each(?1) k;

-- name: take
-- Holder records.   ?1 JSON array of [key, seq, reserved]  ?2 now
-- A reservation turns into a slot by being written again. Writes: holders.
INSERT OR REPLACE INTO holders (key, job, since, reserved)
SELECT value ->> 0, value ->> 1, ?2, value ->> 2 FROM json_each(?1);

-- name: take_few
-- One holder record: `take` for a handful.   ?1 key  ?2 seq  ?3 reserved  ?4 now
-- Writes: holders.
INSERT OR REPLACE INTO holders (key, job, since, reserved) VALUES (?1, ?2, ?4, ?3);

-- name: take_sized
-- One holder record of more or less than one unit.   ?1 key  ?2 seq  ?3 reserved  ?4 units  ?5 now
-- Writes: holders.
INSERT OR REPLACE INTO holders (key, job, since, reserved, units) VALUES (?1, ?2, ?5, ?3, ?4);

-- name: drop
-- Jobs let go of what they may hold.   ?1 JSON array of [key, seq]
-- Writes: holders by primary key.
DELETE FROM holders WHERE (key, job) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1));

-- name: drop_one
-- A job lets go of one key, if it holds it.   ?1 key  ?2 seq
-- Writes: holders by primary key.
DELETE FROM holders WHERE key = ?1 AND job = ?2;

-- name: drop_all
-- All that a job holds, for one whose keys cannot be read.   ?1 seq
-- Writes: holders, looking at every record.
DELETE FROM holders WHERE job = ?1 RETURNING key;

-- name: adopt
-- Running jobs of a task or queue become holders of its new cap.   ?1 key  ?2 now  ?3 task  ?4 queue (one is NULL)
-- Reads: jobs_running, as many as run. Writes: holders.
INSERT OR IGNORE INTO holders (key, job, since, reserved)
SELECT ?1, seq, ?2, 0 FROM jobs
WHERE state = 'running' AND (?3 IS NULL OR task = ?3) AND (?4 IS NULL OR queue = ?4);

-- name: reservations
-- Which of its keys a pending job has reserved, and how many units.   ?1 seq  ?2 JSON array of keys
-- Reads: holders by primary key.
SELECT key, units FROM holders WHERE job = ?1 AND key IN (SELECT value FROM json_each(?2));

-- name: limit_reservations
-- When a pending job's reservations run out: a time while it is ready, NULL while it waits.
-- ?1 seq  ?2 JSON array of its keys  ?3 time
-- Writes: holders by primary key.
UPDATE holders SET expires_at = ?3 WHERE job = ?1 AND key IN (SELECT value FROM json_each(?2));

-- name: expired_reservations
-- Reservations whose job was offered and not claimed in time.   ?1 now  ?2 how many
-- Reads: holders_expiry.
SELECT key, job FROM holders WHERE expires_at IS NOT NULL AND expires_at <= ?1 LIMIT ?2;

-- name: stray_holders
-- Holder records whose job neither runs nor, for a reservation, is pending.   ?1 JSON array of keys
-- Reads: holders by primary key, jobs by rowid.
SELECT h.key, h.job, coalesce(j.id, '#' || h.job), j.state
FROM json_each(?1) k JOIN holders h ON h.key = k.value LEFT JOIN jobs j ON j.seq = h.job
WHERE j.state IS NULL OR NOT (CASE h.reserved WHEN 0 THEN j.state = 'running'
                              ELSE j.state IN ('scheduled', 'ready', 'waiting') END);
