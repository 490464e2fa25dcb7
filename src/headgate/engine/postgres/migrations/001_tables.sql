-- The tables of Headgate on PostgreSQL. `headgate.` stands for the schema that was asked for.
--
--   jobs       what was asked for: one row per job, written once, so that a job's way costs none of its width
--   live       unfinished jobs: `state` and the columns beside it say where each stands. The partial indexes are the
--              lines: ready, newcomers, set aside, scheduled, waiting on a key, running under a worker. What admission
--              asks of a job stands here, too. Enqueue asks no key. A newcomer goes straight to the line of its first
--              key, `unseen`, and the key into `rechecks`. (`fresh` is of older versions: see 005.)
--   ended      how the others ended
--   attempts   attempts that ended without ending their job; the last one stands in `ended`
--   keys       lock objects, nothing else: a step that decides on a key locks its row (functions/000_preface.sql)
--   uniques    always empty: a step that inserts a unique key here holds it until it commits
--   holders    which job holds a slot of which concurrency key. Held = number of rows: there is no counter.
--   meters     what was spent of a rate key (GCRA); starts: the same for exact sliding windows
--   timers     one per rate key that is waited for          rechecks   keys that have to be looked at
--   limits, overrides, computed   the numbers in force
--   workers    leases       listeners   processes that want to be notified
--   paused     queues that are not claimed from          ticks      periodic tasks         meta   the schema's version
--
-- Times are microseconds since 1970. A key is its ident text. Texts are compared by bytes (COLLATE "C").

CREATE SEQUENCE headgate.arrivals;

CREATE TABLE headgate.jobs (
    seq              bigint   PRIMARY KEY,
    id               text     COLLATE "C" NOT NULL,
    task             text     COLLATE "C" NOT NULL,
    queue            text     COLLATE "C" NOT NULL,
    tenant           text     COLLATE "C" NOT NULL,
    priority         smallint NOT NULL,
    enqueued_at      bigint   NOT NULL,
    args             text     NOT NULL,
    use_keys         text[]   COLLATE "C",
    use_units        bigint[],
    retry            text     NOT NULL,
    timeout          bigint,
    unique_key       text     COLLATE "C",
    metadata         text,
    retention        bigint
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX jobs_id ON headgate.jobs (id);

CREATE TABLE headgate.live (
    seq              bigint   PRIMARY KEY,
    task             text     COLLATE "C" NOT NULL,
    queue            text     COLLATE "C" NOT NULL,
    tenant           text     COLLATE "C" NOT NULL,
    priority         smallint NOT NULL,
    due              bigint   NOT NULL,
    state            text     COLLATE "C" NOT NULL,
    use_keys         text[]   COLLATE "C",
    use_units        bigint[],
    unique_key       text     COLLATE "C",
    waiting_on       text     COLLATE "C",
    offered_by       text     COLLATE "C",
    units            bigint   NOT NULL DEFAULT 0,
    refusals         integer,
    set_aside        boolean  NOT NULL DEFAULT false,
    fresh            boolean  NOT NULL DEFAULT false,
    unseen           boolean  NOT NULL DEFAULT false,
    attempt          integer  NOT NULL DEFAULT 0,
    tries            integer  NOT NULL DEFAULT 0,
    worker           text     COLLATE "C",
    started_at       bigint,
    cancel_requested boolean  NOT NULL DEFAULT false,
    error            text,
    progress         text
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX live_ready      ON headgate.live (queue, priority, due, seq) WHERE state = 'ready' AND NOT set_aside
    AND NOT fresh;
CREATE INDEX live_fresh      ON headgate.live (queue, priority, due, seq) WHERE fresh;
CREATE INDEX live_aside      ON headgate.live (queue, task, priority, due, seq) WHERE set_aside;
CREATE INDEX live_scheduled  ON headgate.live (due, seq) WHERE state = 'scheduled';
CREATE INDEX live_waiting    ON headgate.live (waiting_on, queue, priority, due, seq) WHERE state = 'waiting';
CREATE INDEX live_offered    ON headgate.live (offered_by, queue) INCLUDE (units) WHERE offered_by IS NOT NULL;
CREATE INDEX live_running    ON headgate.live (worker, seq) WHERE state = 'running';
CREATE INDEX live_cancelling ON headgate.live (worker) WHERE cancel_requested;
CREATE UNIQUE INDEX live_unique ON headgate.live (tenant, unique_key) WHERE unique_key IS NOT NULL;

CREATE TABLE headgate.ended (
    seq              bigint   PRIMARY KEY,
    state            text     COLLATE "C" NOT NULL,
    due              bigint   NOT NULL,
    attempt          integer  NOT NULL,
    tries            integer  NOT NULL,
    worker           text     COLLATE "C",
    started_at       bigint,
    ended_at         bigint   NOT NULL,
    outcome          text     COLLATE "C",
    cancel_requested boolean  NOT NULL,
    error            text,
    result           text,
    progress         text,
    expires_at       bigint   NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ended_expiry ON headgate.ended (expires_at);

CREATE TABLE headgate.attempts (
    job        bigint  NOT NULL,
    number     integer NOT NULL,
    outcome    text    NOT NULL,
    started_at bigint  NOT NULL,
    ended_at   bigint  NOT NULL,
    worker     text    NOT NULL,
    error      text,
    PRIMARY KEY (job, number)
);

CREATE TABLE headgate.keys (key text COLLATE "C" PRIMARY KEY)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE UNLOGGED TABLE headgate.uniques (
    tenant text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE headgate.holders (
    key        text    COLLATE "C" NOT NULL,
    job        bigint  NOT NULL,
    since      bigint  NOT NULL,
    reserved   boolean NOT NULL,
    expires_at bigint,
    PRIMARY KEY (key, job)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX holders_job    ON headgate.holders (job);
CREATE INDEX holders_expiry ON headgate.holders (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE headgate.meters (
    key     text   COLLATE "C" PRIMARY KEY,
    full_at bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX meters_full ON headgate.meters (full_at);

CREATE TABLE headgate.starts (
    key   text   COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    units bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX starts_key ON headgate.starts (key, at);
CREATE INDEX starts_at  ON headgate.starts (at);

CREATE TABLE headgate.timers (
    key text   COLLATE "C" PRIMARY KEY,
    at  bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX timers_at ON headgate.timers (at);

CREATE TABLE headgate.rechecks (key text COLLATE "C" NOT NULL);

CREATE TABLE headgate.limits (
    name      text    COLLATE "C" PRIMARY KEY,
    kind      text    NOT NULL,
    max       bigint,
    period    bigint  NOT NULL,
    burst     bigint,
    algorithm text    NOT NULL,
    cap       boolean GENERATED ALWAYS AS (name LIKE 'task:%' OR name LIKE 'queue:%') STORED
);

CREATE INDEX limits_cap ON headgate.limits (name) WHERE cap;

CREATE TABLE headgate.overrides (
    name   text   COLLATE "C" NOT NULL,
    value  text   COLLATE "C",
    tenant text   COLLATE "C",
    max    bigint,
    "by"   text   NOT NULL,
    at     bigint NOT NULL,
    why    text   NOT NULL,
    until  bigint,
    cap    boolean GENERATED ALWAYS AS (name LIKE 'task:%' OR name LIKE 'queue:%') STORED
);

CREATE INDEX overrides_name  ON headgate.overrides (name);
CREATE INDEX overrides_cap   ON headgate.overrides (name) WHERE cap;
CREATE INDEX overrides_until ON headgate.overrides (until) WHERE until IS NOT NULL;

CREATE TABLE headgate.computed (
    key text   COLLATE "C" PRIMARY KEY,
    max bigint NOT NULL,
    at  bigint NOT NULL
);

CREATE TABLE headgate.workers (
    id            text    COLLATE "C" PRIMARY KEY,
    tasks         text[]  COLLATE "C" NOT NULL,
    queues        text[]  COLLATE "C",
    lease         bigint  NOT NULL,
    host          text    NOT NULL,
    pid           bigint  NOT NULL,
    concurrency   integer NOT NULL,
    registered_at bigint  NOT NULL,
    lease_until   bigint  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);

CREATE INDEX workers_lease ON headgate.workers (lease_until);

CREATE TABLE headgate.listeners (
    id      text    COLLATE "C" PRIMARY KEY,
    work    boolean,           -- NULL: not interested; false: has all the work it wants
    ended   boolean NOT NULL,
    until   bigint  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE headgate.paused (queue text COLLATE "C" PRIMARY KEY);

CREATE TABLE headgate.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE headgate.ticks (
    task text   COLLATE "C" PRIMARY KEY,
    at   bigint NOT NULL
);
