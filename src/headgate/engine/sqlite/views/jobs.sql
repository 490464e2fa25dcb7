-- Every job that the file has.
--
-- Reads: each state through its partial index, so that a condition on the state reads no job of another one; a condition
-- on the id through the unique index on id. Other conditions read all.
CREATE TEMP VIEW jobs AS
SELECT id, state, task, queue, tenant, priority,
       strftime('%Y-%m-%dT%H:%M:%S', due / 1000000, 'unixepoch') || printf('.%06dZ', due % 1000000) AS due,
       strftime('%Y-%m-%dT%H:%M:%S', enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', enqueued_at % 1000000) AS enqueued_at,
       strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', ended_at / 1000000, 'unixepoch') || printf('.%06dZ', ended_at % 1000000) AS ended_at,
       attempt, tries, worker,
       substr(waiting_on, instr(waiting_on, ':') + 1 + CAST(substr(waiting_on, 2, instr(waiting_on, ':') - 2) AS INTEGER)) AS waiting_on,
       unique_key, cancel_requested, error, args, result, progress, metadata, headers,
       share,
       strftime('%Y-%m-%dT%H:%M:%S', start_by / 1000000, 'unixepoch') || printf('.%06dZ', start_by % 1000000) AS start_by
FROM (
    SELECT * FROM main.jobs WHERE state = 'scheduled'
    UNION ALL SELECT * FROM main.jobs WHERE state = 'ready' AND set_aside = 0
    UNION ALL SELECT * FROM main.jobs WHERE state = 'ready' AND set_aside > 0
    UNION ALL SELECT * FROM main.jobs WHERE state = 'waiting'
    UNION ALL SELECT * FROM main.jobs WHERE state = 'running'
    UNION ALL SELECT * FROM main.jobs WHERE state = 'succeeded' AND expires_at IS NOT NULL
    UNION ALL SELECT * FROM main.jobs WHERE state = 'failed' AND expires_at IS NOT NULL
    UNION ALL SELECT * FROM main.jobs WHERE state = 'cancelled' AND expires_at IS NOT NULL
)
