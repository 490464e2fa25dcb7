-- The tables of Headgate on SQLite.
--
--   jobs       one row per job; `state` and the columns beside it say where it stands. The partial indexes are the lines
--              in which jobs stand: ready, set aside, scheduled, waiting on a key, running under a worker, ended.
--   attempts   attempts that ended without ending their job; the last one stands in the job's own row
--   holders    who holds a slot of which concurrency key. Held = number of rows: there is no counter. What a job can
--              hold is known from its own row, so its records are found by their keys.
--   meters     what was spent of a rate key (GCRA); starts: the same for exact sliding windows
--   timers     one per rate key that is waited for
--   limits, overrides, computed   the numbers in force; `meta.rules` counts their changes so that processes
--              know when to read them again
--   workers    leases          paused     queues not to be claimed from          ticks      periodic tasks
--
-- Times are microseconds since 1970. A key is its ident text (see keys.py).

CREATE TABLE jobs (
    seq              INTEGER PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    task             TEXT    NOT NULL,
    queue            TEXT    NOT NULL,
    tenant           TEXT    NOT NULL,
    priority         INTEGER NOT NULL,
    due              INTEGER NOT NULL,
    state            TEXT    NOT NULL,
    enqueued_at      INTEGER NOT NULL,
    args             TEXT    NOT NULL,
    uses             TEXT,
    retry            TEXT    NOT NULL,
    timeout          INTEGER,
    unique_key       TEXT,
    metadata         TEXT,
    retention        INTEGER,
    waiting_on       TEXT,
    offered_by       TEXT,
    units            INTEGER NOT NULL DEFAULT 0,
    refusals         INTEGER,
    set_aside        INTEGER NOT NULL DEFAULT 0,
    attempt          INTEGER NOT NULL DEFAULT 0,
    tries            INTEGER NOT NULL DEFAULT 0,
    worker           TEXT,
    started_at       INTEGER,
    ended_at         INTEGER,
    outcome          TEXT,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    error            TEXT,
    result           TEXT,
    progress         TEXT,
    expires_at       INTEGER
);

CREATE INDEX jobs_ready     ON jobs (queue, priority, due, seq)             WHERE state = 'ready' AND set_aside = 0;
CREATE INDEX jobs_aside     ON jobs (queue, task, priority, due, seq)       WHERE state = 'ready' AND set_aside = 1;
CREATE INDEX jobs_scheduled ON jobs (due, seq)                              WHERE state = 'scheduled';
CREATE INDEX jobs_waiting   ON jobs (waiting_on, queue, priority, due, seq) WHERE state = 'waiting';
CREATE INDEX jobs_offered   ON jobs (offered_by, queue, units)              WHERE offered_by IS NOT NULL;
CREATE INDEX jobs_running   ON jobs (worker, cancel_requested)              WHERE state = 'running';
CREATE INDEX jobs_expiry    ON jobs (expires_at)                            WHERE expires_at IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique ON jobs (tenant, unique_key)
    WHERE unique_key IS NOT NULL AND state IN ('scheduled', 'ready', 'waiting', 'running');

CREATE TABLE attempts (
    job        INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    error      TEXT,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE holders (
    key        TEXT    NOT NULL,
    job        INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    reserved   INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (key, job)
) WITHOUT ROWID;

CREATE INDEX holders_expiry ON holders (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE meters (
    key     TEXT PRIMARY KEY,
    full_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX meters_full ON meters (full_at);

CREATE TABLE starts (
    key   TEXT    NOT NULL,
    at    INTEGER NOT NULL,
    units INTEGER NOT NULL
);

CREATE INDEX starts_key ON starts (key, at);
CREATE INDEX starts_at  ON starts (at);

CREATE TABLE timers (
    key TEXT PRIMARY KEY,
    at  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX timers_at ON timers (at);

CREATE TABLE limits (
    name      TEXT PRIMARY KEY,
    kind      TEXT    NOT NULL,
    max       INTEGER,
    period    INTEGER NOT NULL,
    burst     INTEGER,
    algorithm TEXT    NOT NULL
) WITHOUT ROWID;

CREATE TABLE overrides (
    name   TEXT NOT NULL,
    value  TEXT,
    tenant TEXT,
    max    INTEGER,
    "by"   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    why    TEXT NOT NULL,
    until  INTEGER
);

CREATE INDEX overrides_until ON overrides (until) WHERE until IS NOT NULL;

CREATE TABLE computed (
    key TEXT PRIMARY KEY,
    max INTEGER NOT NULL,
    at  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE workers (
    id            TEXT PRIMARY KEY,
    tasks         TEXT    NOT NULL,
    queues        TEXT,
    lease         INTEGER NOT NULL,
    host          TEXT    NOT NULL,
    pid           INTEGER NOT NULL,
    concurrency   INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    lease_until   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX workers_lease ON workers (lease_until);

CREATE TABLE paused (queue TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE ticks (
    task TEXT PRIMARY KEY,
    at   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('rules', 1);
