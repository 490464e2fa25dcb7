-- The numbers in force, and the keys that a change of them concerns.

-- name: rules_version
-- How often the rules have changed: what every step needs to know first.
-- Reads: meta by primary key.
SELECT value FROM meta WHERE name = 'rules';

-- name: rules_changed
-- Tell other processes that limits or overrides have changed.
-- Writes: meta by primary key.
UPDATE meta SET value = value + (1 << 32) WHERE name = 'rules';

-- name: numbers_changed
-- Tell other processes that the number of a key, a gate or a weight has changed.
-- Writes: meta by primary key.
UPDATE meta SET value = value + 1 WHERE name = 'rules';

-- name: limits
-- All declared limits.
SELECT name, kind, max, period, burst, algorithm, sized, estimated, adaptive, per_key, when_full, max_waiting, on_overflow
FROM limits;

-- name: put_limit
-- A declared limit.   ?1 name ?2 kind ?3 max ?4 period ?5 burst ?6 algorithm ?7 sized ?8 estimated ?9 adaptive
-- ?10 per_key ?11 when_full ?12 max_waiting ?13 on_overflow
INSERT OR REPLACE INTO limits (name, kind, max, period, burst, algorithm, sized, estimated, adaptive, per_key, when_full,
                               max_waiting, on_overflow)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: overrides
-- All overrides.
SELECT name, max, value, tenant, "by", at, why, until FROM overrides;

-- name: put_override
-- An override.   ?1 name ?2 max ?3 value ?4 tenant ?5 by ?6 at ?7 why ?8 until
INSERT INTO overrides (name, max, value, tenant, "by", at, why, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: delete_override
-- Take an override back.   ?1 name  ?2 value  ?3 tenant
DELETE FROM overrides WHERE name = ?1 AND value IS ?2 AND tenant IS ?3;

-- name: numbers
-- What is special about the number of one key.   ?1 key
-- Reads: numbers by primary key.
SELECT at, computed, computed_at, reason, brought, brought_before FROM numbers WHERE key = ?1;

-- name: put_numbers
-- The same is written.   ?1 key  ?2 at  ?3 computed  ?4 computed_at  ?5 reason  ?6 brought  ?7 brought_before
INSERT INTO numbers (key, at, computed, computed_at, reason, brought, brought_before) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (key) DO UPDATE SET at = ?2, computed = ?3, computed_at = ?4, reason = ?5, brought = ?6, brought_before = ?7;

-- name: forget_numbers
-- The numbers of an idle key.   ?1 key
DELETE FROM numbers WHERE key = ?1;

-- name: old_numbers
-- Keys whose numbers last changed long ago, and whether they are idle.   ?1 after  ?2 until  ?3 how many
-- Reads: numbers_at, holders by primary key, jobs_waiting.
SELECT c.key, c.at, NOT EXISTS (SELECT 1 FROM holders h WHERE h.key = c.key)
       AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on = c.key)
FROM numbers c WHERE c.at > ?1 AND c.at <= ?2 ORDER BY c.at LIMIT ?3;

-- name: gates
-- The keys that were throttled.
SELECT key, opens_at, step FROM gates;

-- name: put_gate
-- A key is throttled.   ?1 key  ?2 opens_at  ?3 step
INSERT OR REPLACE INTO gates (key, opens_at, step) VALUES (?1, ?2, ?3);

-- name: forget_gate
-- A throttled key is open wide again.   ?1 key
DELETE FROM gates WHERE key = ?1;

-- name: keys_waiting
-- Keys that have waiters, in order: one index step per key, however many wait.
-- ?1 first key  ?2 below which key (NULL: to the end)  ?3 how many
-- Reads: jobs_waiting.
WITH RECURSIVE k(key) AS (
    SELECT min(waiting_on) FROM jobs WHERE state = 'waiting' AND waiting_on >= CAST(?1 AS TEXT)
    UNION ALL
    SELECT (SELECT min(j.waiting_on) FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on > k.key)
    FROM k WHERE k.key < ?2 OR (?2 IS NULL AND k.key IS NOT NULL)
    LIMIT ?3
)
SELECT key FROM k WHERE key < ?2 OR (?2 IS NULL AND key IS NOT NULL);

-- name: keys_held
-- Keys that are held, in order: one index step per key, however many hold it.
-- ?1 first key  ?2 below which key (NULL: to the end)  ?3 how many
-- Reads: holders by primary key.
WITH RECURSIVE k(key) AS (
    SELECT min(key) FROM holders WHERE key >= CAST(?1 AS TEXT)
    UNION ALL
    SELECT (SELECT min(h.key) FROM holders h WHERE h.key > k.key)
    FROM k WHERE k.key < ?2 OR (?2 IS NULL AND k.key IS NOT NULL)
    LIMIT ?3
)
SELECT key FROM k WHERE key < ?2 OR (?2 IS NULL AND key IS NOT NULL);

-- name: keys_numbered
-- Keys with a number of their own, in order.   ?1 first key  ?2 below which key (NULL: to the end)  ?3 how many
-- Reads: numbers by primary key.
SELECT key FROM numbers WHERE key >= CAST(?1 AS TEXT) AND (?2 IS NULL OR key < ?2) ORDER BY key LIMIT ?3;

-- name: unsettled
-- Limits that have changed and whose keys have yet to be looked at.
SELECT name, from_key FROM unsettled ORDER BY name;

-- name: put_unsettled
-- A limit has changed, and its waited-for keys from here on have yet to be looked at.   ?1 name  ?2 key
-- Writes: unsettled by primary key.
INSERT INTO unsettled (name, from_key) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET from_key = min(from_key, excluded.from_key);

-- name: move_unsettled
-- A slice of a changed limit's keys was looked at.   ?1 name  ?2 key
UPDATE unsettled SET from_key = ?2 WHERE name = ?1;

-- name: settled
-- All keys of a changed limit were looked at.   ?1 name
DELETE FROM unsettled WHERE name = ?1;
