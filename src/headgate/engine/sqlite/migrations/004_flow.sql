-- Flow control: sizes, what becomes of jobs without room, latest starts, numbers of keys, costs, shares.
--
--   jobs.tag, share, charge   fair shares (rule 17); `tag` comes behind the priority in every line (rule 16)
--   jobs.start_by             until when a job must have started, if it has not
--   jobs.unique_for, unique_until, updates   how long a unique key is taken; `updates`: only until the job starts
--   jobs.spent                what a running attempt spent of estimated rates: JSON, key to [units, at, mark]
--   jobs.extras               1: the job has a column below to leave when it starts; 2: its end is not that of any job
--   jobs.taken, late_at, share_line, queue_line   what a job stands in for a while that few jobs stand in: its unique
--              key while it is taken; start_by while it may come true; its share, and its queue where the backlog is
--              bounded, while it is ready or waiting. NULL otherwise, so that statements that do not concern them leave
--              their indexes alone.
--   holders.units             held = sum of the units
--   meters.since, refunded    when the busy period of a bucket began, and what corrections gave back in it
--   numbers                   takes the place of computed: what is special about the number of a key
--   gates                     keys that were throttled: closed, then opening step by step
--   weights, declared_weights of shares: an operator's word, and what code declares
--   virtual_times             the largest tag that has started in a queue at a priority
--   means                     how long attempts of a share take that is charged by time
--   slices                    work that is done in slices: `retag` a share (from here on, upwards where steps shrink),
--                             `mark` the backlog of a queue that is bounded from now on

ALTER TABLE jobs ADD COLUMN tag          INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN share        TEXT;
ALTER TABLE jobs ADD COLUMN charge       TEXT;
ALTER TABLE jobs ADD COLUMN start_by     INTEGER;
ALTER TABLE jobs ADD COLUMN unique_for   INTEGER;
ALTER TABLE jobs ADD COLUMN unique_until INTEGER;
ALTER TABLE jobs ADD COLUMN updates      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN spent        TEXT;
ALTER TABLE jobs ADD COLUMN extras       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN taken        TEXT;
ALTER TABLE jobs ADD COLUMN late_at      INTEGER;
ALTER TABLE jobs ADD COLUMN share_line   TEXT;
ALTER TABLE jobs ADD COLUMN queue_line   TEXT;

UPDATE jobs SET taken = unique_key
WHERE unique_key IS NOT NULL AND state IN ('scheduled', 'ready', 'waiting', 'running');

DROP INDEX jobs_ready;
DROP INDEX jobs_aside;
DROP INDEX jobs_waiting;
DROP INDEX jobs_unique;
CREATE INDEX jobs_ready ON jobs (gravity, queue, priority, tag, due, seq) WHERE state = 'ready' AND set_aside = 0;
CREATE INDEX jobs_aside ON jobs (set_aside, gravity, queue, task, priority, tag, due, seq)
    WHERE state = 'ready' AND set_aside > 0;
CREATE INDEX jobs_waiting ON jobs (waiting_on, queue, priority, tag, due, seq) WHERE state = 'waiting';
CREATE UNIQUE INDEX jobs_unique ON jobs (tenant, taken)                    WHERE taken IS NOT NULL;
CREATE INDEX jobs_late    ON jobs (late_at, seq)                           WHERE late_at IS NOT NULL;
CREATE INDEX jobs_shares  ON jobs (queue, priority, share_line, tag, seq)  WHERE share_line IS NOT NULL;
CREATE INDEX jobs_backlog ON jobs (queue_line, priority, tag, due, seq)    WHERE queue_line IS NOT NULL;

ALTER TABLE holders ADD COLUMN units INTEGER NOT NULL DEFAULT 1;

ALTER TABLE meters ADD COLUMN since    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meters ADD COLUMN refunded INTEGER NOT NULL DEFAULT 0;

ALTER TABLE limits ADD COLUMN sized       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limits ADD COLUMN estimated   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limits ADD COLUMN adaptive    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limits ADD COLUMN per_key     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limits ADD COLUMN when_full   TEXT    NOT NULL DEFAULT 'wait';
ALTER TABLE limits ADD COLUMN max_waiting INTEGER;
ALTER TABLE limits ADD COLUMN on_overflow TEXT    NOT NULL DEFAULT 'refuse';

CREATE TABLE numbers (
    key            TEXT PRIMARY KEY,
    at             INTEGER NOT NULL,
    computed       INTEGER,
    computed_at    INTEGER,
    reason         TEXT,
    brought        INTEGER,
    brought_before INTEGER
) WITHOUT ROWID;

INSERT INTO numbers (key, at, computed, computed_at) SELECT key, at, max, at FROM computed;
DROP TABLE computed;
CREATE INDEX numbers_at ON numbers (at);

CREATE TABLE gates (
    key      TEXT PRIMARY KEY,
    opens_at INTEGER NOT NULL,
    step     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE weights (
    share  TEXT PRIMARY KEY,
    weight REAL    NOT NULL,
    "by"   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    why    TEXT    NOT NULL,
    until  INTEGER
) WITHOUT ROWID;

CREATE TABLE declared_weights (
    share  TEXT PRIMARY KEY,
    weight REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE virtual_times (
    queue    TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    tag      INTEGER NOT NULL,
    PRIMARY KEY (queue, priority)
) WITHOUT ROWID;

CREATE TABLE means (
    queue TEXT    NOT NULL,
    share TEXT    NOT NULL,
    us    INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    step  INTEGER NOT NULL,
    PRIMARY KEY (queue, share)
) WITHOUT ROWID;

CREATE INDEX means_at ON means (at);

CREATE TABLE slices (
    id       INTEGER PRIMARY KEY,
    kind     TEXT    NOT NULL,
    queue    TEXT    NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    share    TEXT    NOT NULL DEFAULT '',
    old      INTEGER NOT NULL DEFAULT 0,
    new      INTEGER NOT NULL DEFAULT 0,
    virtual  INTEGER NOT NULL DEFAULT 0,
    tag      INTEGER,
    seq      INTEGER NOT NULL DEFAULT 0
);
