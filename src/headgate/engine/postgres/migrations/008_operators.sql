-- What operators look at: history, paused schedules, ended jobs by state, queues.
--
--   history            what workers did, by minute, queue and task; kept for a day
--   paused_schedules   periodic tasks that do not tick
--
-- Both indexes are for listings, and each costs a job one entry at most: `ended_other` none that succeeds, `live_lined`
-- one that waits on a key, or for its time. The condition of the latter holds for all of these, but does not follow from
-- what other statements ask (see 006).

CREATE TABLE headgate.history (
    at        bigint NOT NULL,
    queue     text   COLLATE "C" NOT NULL,
    task      text   COLLATE "C" NOT NULL,
    started   bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed    bigint NOT NULL,
    retried   bigint NOT NULL,
    cancelled bigint NOT NULL,
    waited    bigint NOT NULL,
    longest   bigint NOT NULL,
    ran       bigint NOT NULL,
    PRIMARY KEY (at, queue, task)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE TABLE headgate.paused_schedules (task text COLLATE "C" PRIMARY KEY);

CREATE INDEX ended_other ON headgate.ended (state, seq) WHERE state <> 'succeeded';
CREATE INDEX live_lined ON headgate.live (queue, state)
    WHERE octet_length(queue) >= 0 AND (state = 'waiting' OR state = 'scheduled');
