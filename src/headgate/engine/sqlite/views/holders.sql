-- What holds which key. The parts of a key are read out of its ident: kind, length of the tenant, colon, tenant, text.
--
-- Reads: holders, and its jobs by rowid. As many as run, so that a condition on the key needs no index.
CREATE TEMP VIEW holders AS
SELECT key, substr(key, 1, instr(key || '=', '=') - 1) AS name, tenant, job, task, queue, worker,
       strftime('%Y-%m-%dT%H:%M:%S', since / 1000000, 'unixepoch') || printf('.%06dZ', since % 1000000) AS since,
       reserved, units
FROM (
    SELECT substr(h.key, instr(h.key, ':') + 1 + CAST(substr(h.key, 2, instr(h.key, ':') - 2) AS INTEGER)) AS key,
           substr(h.key, instr(h.key, ':') + 1, CAST(substr(h.key, 2, instr(h.key, ':') - 2) AS INTEGER)) AS tenant,
           j.id AS job, j.task, j.queue, j.worker, h.since, h.reserved, h.units
    FROM main.holders h JOIN main.jobs j ON j.seq = h.job
)
