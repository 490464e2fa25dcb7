-- Numbered messages, suspects, and work that is done in slices.
--
--   jobs.suspicion, lost, lost_after   blame (blame.py). `gravity`, always min(suspicion, 3), splits the lines of ready
--              jobs (stored, since an index over a generated column costs each claim and each end): suspects stand in
--              lines of their own, the gravest first, so that they are in no other job's way.
--   workers.number   the last numbered message of a registration that took effect
--   unsettled  limits whose numbers have changed, with the key from which on waited-for keys have yet to be looked at:
--              a change of a limit with very many keys is acted on in slices
--   starts.gone_at   when a start leaves its window
--   meta.rules counts changes of limits and overrides in its upper half, of computed numbers in its lower 32 bits

ALTER TABLE jobs ADD COLUMN suspicion  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN lost       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN lost_after INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN gravity    INTEGER NOT NULL DEFAULT 0;

DROP INDEX jobs_ready;
DROP INDEX jobs_aside;
CREATE INDEX jobs_ready ON jobs (gravity, queue, priority, due, seq)       WHERE state = 'ready' AND set_aside = 0;
CREATE INDEX jobs_aside ON jobs (gravity, queue, task, priority, due, seq) WHERE state = 'ready' AND set_aside = 1;

ALTER TABLE workers ADD COLUMN number INTEGER NOT NULL DEFAULT 0;

CREATE TABLE unsettled (
    name     TEXT PRIMARY KEY,
    from_key TEXT NOT NULL
) WITHOUT ROWID;

-- What a period was is not known here; a day is longer than nearly all, and too long does no harm.
ALTER TABLE starts ADD COLUMN gone_at INTEGER NOT NULL DEFAULT 0;
UPDATE starts SET gone_at = at + 86400000000;
DROP INDEX starts_at;
CREATE INDEX starts_gone ON starts (gone_at);

CREATE INDEX computed_at ON computed (at);

UPDATE meta SET value = value << 32 WHERE name = 'rules';
