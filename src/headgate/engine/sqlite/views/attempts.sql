-- The attempts that have ended: those that did not end their job have rows of their own, the last one stands in the job's.
--
-- Reads: with a condition on the job, the unique index on id and attempts by primary key. Others read all.
CREATE TEMP VIEW attempts AS
SELECT job, number, outcome,
       strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', ended_at / 1000000, 'unixepoch') || printf('.%06dZ', ended_at % 1000000) AS ended_at,
       worker, error
FROM (
    SELECT j.id AS job, a.number, a.outcome, a.started_at, a.ended_at, a.worker, a.error
    FROM main.attempts a JOIN main.jobs j ON j.seq = a.job
    UNION ALL
    SELECT id, attempt, outcome, started_at, ended_at, coalesce(worker, ''), error
    FROM main.jobs WHERE outcome IS NOT NULL AND started_at IS NOT NULL AND ended_at IS NOT NULL
)
