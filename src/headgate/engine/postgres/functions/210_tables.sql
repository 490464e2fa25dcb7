-- The tables that questions in SQL ask (contract/tables.py): the same columns on every store, times as timestamps. The
-- statements that ask them know them by their names without `sql_`. Columns are only ever added, at the end.

CREATE OR REPLACE FUNCTION headgate._time(p_at bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_timestamp(p_at / 1e6)
$$;

CREATE OR REPLACE VIEW headgate.sql_jobs AS
SELECT j.id, j.state, j.task, j.queue, j.tenant, j.priority, headgate._time(j.due) AS due,
       headgate._time(j.enqueued_at) AS enqueued_at, headgate._time(j.started_at) AS started_at,
       headgate._time(j.ended_at) AS ended_at, j.attempt, j.tries, j.worker,
       headgate._text(j.waiting_on) AS waiting_on, j.unique_key, j.cancel_requested, j.error, j.args, j.result,
       j.progress, j.metadata, j.headers, j.share, headgate._time(j.start_by) AS start_by
FROM headgate._jobs j;

CREATE OR REPLACE VIEW headgate.sql_attempts AS
SELECT j.id AS job, a.number, a.outcome, headgate._time(a.started_at) AS started_at,
       headgate._time(a.ended_at) AS ended_at, a.worker, a.error
FROM headgate.attempts a JOIN headgate.jobs j ON j.seq = a.job
UNION ALL
SELECT j.id, e.attempt, e.outcome, headgate._time(e.started_at), headgate._time(e.ended_at), coalesce(e.worker, ''),
       e.error
FROM headgate.ended e JOIN headgate.jobs j ON j.seq = e.seq WHERE e.outcome IS NOT NULL AND e.started_at IS NOT NULL;

CREATE OR REPLACE VIEW headgate.sql_holders AS
SELECT headgate._text(h.key) AS key, headgate._name(h.key) AS name, headgate._tenant(h.key) AS tenant, j.id AS job,
       j.task, j.queue, l.worker, headgate._time(h.since) AS since, h.reserved, h.units
FROM headgate.holders h JOIN headgate.jobs j ON j.seq = h.job LEFT JOIN headgate.live l ON l.seq = h.job;

CREATE OR REPLACE VIEW headgate.sql_waiters AS
SELECT headgate._text(l.waiting_on) AS key, headgate._name(l.waiting_on) AS name,
       headgate._tenant(l.waiting_on) AS tenant, j.id AS job, l.task, l.queue, l.priority, headgate._time(l.due) AS due
FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq WHERE l.state = 'waiting';

-- Each limit that is declared, overridden or in use, with the sums over its keys, and the keys that are held, waited for,
-- overridden or computed.
CREATE OR REPLACE VIEW headgate.sql_limits AS
WITH counted AS (
    SELECT c.key, sum(c.held)::bigint AS held, sum(c.waiting)::bigint AS waiting FROM (
        SELECT h.key, sum(h.units) AS held, 0 AS waiting FROM headgate.holders h GROUP BY h.key
        UNION ALL
        SELECT j.waiting_on, 0, count(*) FROM headgate.live j WHERE j.state = 'waiting' GROUP BY j.waiting_on
        UNION ALL SELECT k.key, 0, 0 FROM headgate.computed k
        UNION ALL SELECT k.key, 0, 0 FROM headgate.brought k
        UNION ALL SELECT k.key, 0, 0 FROM headgate.gates k
        UNION ALL
        SELECT CASE WHEN l.kind = 'rate' THEN 'r' ELSE 'c' END || length(coalesce(o.tenant, '')) || ':'
               || coalesce(o.tenant, '') || o.name || coalesce('=' || o.value, ''), 0, 0
        FROM headgate.overrides o LEFT JOIN headgate.limits l ON l.name = o.name
        WHERE o.value IS NOT NULL OR o.tenant IS NOT NULL
    ) AS c GROUP BY c.key
), named AS (
    SELECT l.name, l.kind = 'rate' AS rate, 0 AS held, 0 AS waiting FROM headgate.limits l
    UNION ALL SELECT o.name, false, 0, 0 FROM headgate.overrides o
    UNION ALL SELECT headgate._name(c.key), false, c.held, c.waiting FROM counted c
), listed AS (
    SELECT CASE WHEN bool_or(n.rate) THEN 'r0:' ELSE 'c0:' END || n.name AS key, sum(n.held)::bigint AS held,
           sum(n.waiting)::bigint AS waiting
    FROM named n GROUP BY n.name
    UNION ALL
    SELECT c.key, c.held, c.waiting FROM counted c
    WHERE headgate._text(c.key) <> headgate._name(c.key) OR headgate._tenant(c.key) <> ''
)
SELECT headgate._text(k.key) AS key, headgate._name(k.key) AS name, headgate._tenant(k.key) AS tenant,
       coalesce(l.kind, CASE WHEN k.key LIKE 'r%' THEN 'rate' ELSE 'concurrency' END) AS kind, r.number AS max,
       l.max AS declared, k.held, k.waiting, CASE WHEN l.kind = 'rate' THEN l.period END AS per, l.burst,
       CASE WHEN l.kind = 'rate' THEN l.algorithm END AS algorithm
FROM listed k CROSS JOIN LATERAL headgate._in_force(ARRAY[k.key]) AS r
LEFT JOIN headgate.limits l ON l.name = headgate._name(k.key);

CREATE OR REPLACE VIEW headgate.sql_overrides AS
SELECT o.name || coalesce('=' || o.value, '') AS key, o.name, coalesce(o.tenant, '') AS tenant, o.max, o."by",
       headgate._time(o.at) AS at, o.why, headgate._time(o.until) AS until
FROM headgate.overrides o;

CREATE OR REPLACE VIEW headgate.sql_queues AS
SELECT q.name, EXISTS (SELECT 1 FROM headgate.paused p WHERE p.queue = q.name) AS paused,
       coalesce(sum(q.jobs) FILTER (WHERE q.state = 'scheduled'), 0)::bigint AS scheduled,
       coalesce(sum(q.jobs) FILTER (WHERE q.state = 'ready'), 0)::bigint AS ready,
       coalesce(sum(q.jobs) FILTER (WHERE q.state = 'waiting'), 0)::bigint AS waiting,
       coalesce(sum(q.jobs) FILTER (WHERE q.state = 'running'), 0)::bigint AS running,
       (SELECT headgate._time(o.due) FROM headgate._oldest() AS o WHERE o.queue = q.name) AS oldest
FROM (SELECT j.queue AS name, j.state, count(*) AS jobs FROM headgate._live_jobs j GROUP BY j.queue, j.state
      UNION ALL SELECT p.queue, 'paused', 0 FROM headgate.paused p) AS q
GROUP BY q.name;

CREATE OR REPLACE VIEW headgate.sql_workers AS
SELECT w.id, w.host, w.pid, to_json(w.queues)::text AS queues, to_json(w.tasks)::text AS tasks,
       w.concurrency,
       (SELECT count(*) FROM headgate.live j WHERE j.state = 'running' AND j.worker = w.id) AS running,
       headgate._time(w.registered_at) AS registered_at, headgate._time(w.lease_until) AS lease_until
FROM headgate.workers w;

-- No view asks it any more.
DROP FUNCTION IF EXISTS headgate._rules(text[]);
