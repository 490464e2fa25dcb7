-- Headers, threads, and what operators look at.
--
--   jobs.headers          what travels with a job, as JSON
--   jobs.set_aside        1 the task was unknown, 2 there was no thread: each in a line of its own
--   workers.threaded      those of the tasks that need a thread
--   jobs_ended            takes the place of jobs_expiry: ended jobs are counted by state
--   history               what was done, by minute, queue and task
--   paused_schedules      periodic tasks that do not tick

ALTER TABLE jobs ADD COLUMN headers TEXT;
ALTER TABLE workers ADD COLUMN threaded TEXT NOT NULL DEFAULT '[]';

DROP INDEX jobs_aside;
CREATE INDEX jobs_aside ON jobs (set_aside, gravity, queue, task, priority, due, seq)
    WHERE state = 'ready' AND set_aside > 0;

DROP INDEX jobs_expiry;
CREATE INDEX jobs_ended ON jobs (state, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE history (
    at        INTEGER NOT NULL,
    queue     TEXT    NOT NULL,
    task      TEXT    NOT NULL,
    started   INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    retried   INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    waited    INTEGER NOT NULL,
    longest   INTEGER NOT NULL,
    ran       INTEGER NOT NULL,
    PRIMARY KEY (at, queue, task)
) WITHOUT ROWID;

CREATE TABLE paused_schedules (task TEXT PRIMARY KEY) WITHOUT ROWID;
