-- What waits for which key; the parts of a key as in holders.
--
-- Reads: jobs_waiting. A condition on the key reads the whole of that index, and the rows of what waits on the key.
CREATE TEMP VIEW waiters AS
SELECT key, substr(key, 1, instr(key || '=', '=') - 1) AS name, tenant, job, task, queue, priority,
       strftime('%Y-%m-%dT%H:%M:%S', due / 1000000, 'unixepoch') || printf('.%06dZ', due % 1000000) AS due
FROM (
    SELECT substr(waiting_on, instr(waiting_on, ':') + 1 + CAST(substr(waiting_on, 2, instr(waiting_on, ':') - 2) AS INTEGER)) AS key,
           substr(waiting_on, instr(waiting_on, ':') + 1, CAST(substr(waiting_on, 2, instr(waiting_on, ':') - 2) AS INTEGER)) AS tenant,
           id AS job, task, queue, priority, due
    FROM main.jobs WHERE state = 'waiting'
)
