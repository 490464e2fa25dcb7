-- Flow control: who is next, what becomes of those for whom there is no room, numbers and sizes per key.
--
--   live.tag, share       a job's place among the shares of its queue (rule 17); every line is in the order of tags
--   live.newcomer         a newcomer of a limit that may turn it away: it is scheduled and due, and arrives with the next
--                         exchange or sweep. Its tag it has already.
--   live.start_by         until when it must have started; NULL once it has
--   live.unique_until     until when its unique key stays taken, also when it has ended   ended.*   the same there
--   live.key_free         its unique key was given free when it started
--   live.spent            what its attempt has spent of estimated rates: {key: [units, at, mark]}
--   jobs.*                what was asked for
--   kept_keys             unique keys that ended jobs keep until a time; counts only while the job's row in `ended` agrees
--   holders.units         how many slots it holds
--   meters.since, refunded   when its busy period began, and what corrections gave back in it
--   brought               numbers that jobs brought for keys: the one of the latest arrival counts. Enqueue only adds rows,
--                         since it may wait for no other; older ones go with a look at their key.
--   rechecks.tag …        of newcomers with a share, so that those of a quiet one are found
--   gates                 concurrency keys that were throttled: closed until `opens_at`, then a slot more each `step`
--   shares, means         weights of shares; how long the attempts of those take that are charged by time
--   virtual               per queue and priority the largest tag that has started
--   retags                shares whose waiting jobs are being tagged anew, slice by slice

ALTER TABLE headgate.jobs
    ADD COLUMN use_numbers bigint[],
    ADD COLUMN share       text COLLATE "C",
    ADD COLUMN by_time     boolean,
    ADD COLUMN updates     boolean,
    ADD COLUMN unique_for  bigint;

ALTER TABLE headgate.live
    ADD COLUMN tag          bigint  NOT NULL DEFAULT 0,
    ADD COLUMN share        text    COLLATE "C",
    ADD COLUMN newcomer     boolean NOT NULL DEFAULT false,
    ADD COLUMN start_by     bigint,
    ADD COLUMN unique_until bigint,
    ADD COLUMN key_free     boolean NOT NULL DEFAULT false,
    ADD COLUMN spent        jsonb;

ALTER TABLE headgate.ended
    ADD COLUMN tag          bigint,
    ADD COLUMN start_by     bigint,
    ADD COLUMN unique_until bigint;

DROP INDEX headgate.live_ready;
CREATE INDEX live_ready ON headgate.live (queue, priority, tag, due, seq)
    WHERE state = 'ready' AND NOT set_aside AND suspicion = 0;
DROP INDEX headgate.live_aside;
CREATE INDEX live_aside ON headgate.live (queue, task, lacks_thread, least(suspicion, 1), priority, tag, due, seq)
    WHERE set_aside;
DROP INDEX headgate.live_suspects;
CREATE INDEX live_suspects ON headgate.live (queue, least(suspicion, 3) DESC, priority, tag, due, seq)
    WHERE state = 'ready' AND NOT set_aside AND suspicion > 0;
DROP INDEX headgate.live_waiting;
CREATE INDEX live_waiting ON headgate.live (waiting_on, queue, priority, tag, due, seq) WHERE state = 'waiting';
CREATE INDEX live_newcomers ON headgate.live (queue, priority, tag, due, seq) WHERE newcomer;
CREATE INDEX live_shares ON headgate.live (queue, priority, share, tag, seq)
    WHERE share IS NOT NULL AND (state = 'ready' OR state = 'waiting' OR newcomer);
CREATE INDEX live_starting ON headgate.live (start_by) WHERE start_by IS NOT NULL;
DROP INDEX headgate.live_unique;
CREATE UNIQUE INDEX live_unique ON headgate.live (tenant, unique_key, (CASE WHEN key_free THEN seq ELSE 0 END))
    WHERE unique_key IS NOT NULL;

CREATE TABLE headgate.kept_keys (
    job    bigint PRIMARY KEY,
    tenant text   COLLATE "C" NOT NULL,
    key    text   COLLATE "C" NOT NULL,
    until  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX kept_keys_key   ON headgate.kept_keys (tenant, key);
CREATE INDEX kept_keys_until ON headgate.kept_keys (until);

ALTER TABLE headgate.holders ADD COLUMN units bigint NOT NULL DEFAULT 1;

ALTER TABLE headgate.meters
    ADD COLUMN since    bigint NOT NULL DEFAULT 0,
    ADD COLUMN refunded bigint NOT NULL DEFAULT 0;

ALTER TABLE headgate.rechecks
    ADD COLUMN queue    text     COLLATE "C",
    ADD COLUMN priority smallint,
    ADD COLUMN tag      bigint;

CREATE INDEX rechecks_tag ON headgate.rechecks (queue, priority, tag) WHERE tag > 0;

-- A limit of a queue that only bounds its backlog is no cap.
DROP INDEX headgate.limits_cap;
ALTER TABLE headgate.limits DROP COLUMN cap;
ALTER TABLE headgate.limits
    ADD COLUMN sized       boolean NOT NULL DEFAULT false,
    ADD COLUMN estimated   boolean NOT NULL DEFAULT false,
    ADD COLUMN adaptive    boolean NOT NULL DEFAULT false,
    ADD COLUMN per_key     boolean NOT NULL DEFAULT false,
    ADD COLUMN when_full   text    NOT NULL DEFAULT 'wait',
    ADD COLUMN max_waiting bigint,
    ADD COLUMN on_overflow text    NOT NULL DEFAULT 'refuse';
ALTER TABLE headgate.limits
    ADD COLUMN cap boolean GENERATED ALWAYS AS (
        (name LIKE 'task:%' OR name LIKE 'queue:%') AND (max IS NOT NULL OR max_waiting IS NULL)) STORED,
    ADD COLUMN policy boolean GENERATED ALWAYS AS (when_full <> 'wait' OR max_waiting IS NOT NULL) STORED;
CREATE INDEX limits_cap    ON headgate.limits (name) WHERE cap;
CREATE INDEX limits_policy ON headgate.limits (name) WHERE policy;

ALTER TABLE headgate.computed ADD COLUMN reason text;

CREATE TABLE headgate.brought (
    key    text   COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    number bigint NOT NULL,
    before bigint,
    at     bigint NOT NULL,
    PRIMARY KEY (key, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX brought_text ON headgate.brought (headgate._name(key), headgate._text(key), headgate._tenant(key));

CREATE TABLE headgate.gates (
    key      text   COLLATE "C" PRIMARY KEY,
    opens_at bigint NOT NULL,
    step     bigint NOT NULL,
    wide_at  bigint NOT NULL
);

CREATE TABLE headgate.shares (
    share    text             COLLATE "C" PRIMARY KEY,
    declared double precision,
    weight   double precision,
    "by"     text             NOT NULL DEFAULT '',
    at       bigint           NOT NULL DEFAULT 0,
    why      text             NOT NULL DEFAULT '',
    until    bigint
);

CREATE INDEX shares_until ON headgate.shares (until) WHERE until IS NOT NULL;

CREATE TABLE headgate.means (
    queue text   COLLATE "C" NOT NULL,
    share text   COLLATE "C" NOT NULL,
    us    bigint NOT NULL,
    at    bigint NOT NULL,
    step  bigint NOT NULL,
    PRIMARY KEY (queue, share)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX means_at ON headgate.means (at);

CREATE TABLE headgate.virtual (
    queue    text     COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    tag      bigint   NOT NULL,
    PRIMARY KEY (queue, priority)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE SEQUENCE headgate.changes_of_shares;

CREATE TABLE headgate.retags (
    n         bigint   PRIMARY KEY,
    queue     text     COLLATE "C" NOT NULL,
    priority  smallint NOT NULL,
    share     text     COLLATE "C" NOT NULL,
    virtual   bigint   NOT NULL,
    old_step  bigint   NOT NULL,
    new_step  bigint   NOT NULL,
    after_tag bigint,
    after_seq bigint
);

-- Made anew with other parameters or results; what processes of the release before call keeps its names and columns.
DROP FUNCTION IF EXISTS headgate._free(text[], bigint);
DROP FUNCTION IF EXISTS headgate._head(text, text[]);
DROP FUNCTION IF EXISTS headgate._give_back(bigint[], boolean);
DROP FUNCTION IF EXISTS headgate._arrive(bigint[], bigint, text[]);
DROP FUNCTION IF EXISTS headgate._claim(bigint[], text[], boolean, boolean, boolean, text[], text[], integer, bigint,
    integer, bigint);
DROP FUNCTION IF EXISTS headgate._spend(text, bigint, bigint);
DROP FUNCTION IF EXISTS headgate._lines();
DROP FUNCTION IF EXISTS headgate._lock_more(bigint[], text[], text[]);
DROP FUNCTION IF EXISTS headgate._end(text, text[], integer[], bigint[], text[], text[], bigint[], bigint, bigint[],
    bigint);
DROP FUNCTION IF EXISTS headgate._cancel_pending(bigint, bigint, bigint[]);
DROP FUNCTION IF EXISTS headgate._conflicts(text[], bigint[], text[], text[], text[]);
DROP FUNCTION IF EXISTS headgate._replace(text[], bigint[], bigint[], text[], text[], json, boolean, bigint, bigint[],
    boolean);
DROP FUNCTION IF EXISTS headgate._restart(bigint, bigint, text, text[], bigint[]);
DROP FUNCTION IF EXISTS headgate._line(text, integer);
DROP FUNCTION IF EXISTS headgate._key_stands(text[], integer, integer, bigint);
DROP FUNCTION IF EXISTS headgate._schedule(bigint, bigint, integer, integer, text, text);
DROP FUNCTION IF EXISTS headgate.sweep(bigint, bigint, bigint[], text, integer);
