-- For people with psql or a BI tool. Columns are only ever added.

DROP VIEW IF EXISTS headgate.jobs_view, headgate.limits_view, headgate.holders_view, headgate.waiting_view;

CREATE VIEW headgate.jobs_view AS
SELECT j.id, j.task, j.queue, nullif(j.tenant, '') AS tenant, j.state, j.priority, to_timestamp(j.due / 1e6) AS due,
       to_timestamp(j.enqueued_at / 1e6) AS enqueued_at, to_timestamp(j.started_at / 1e6) AS started_at,
       to_timestamp(j.ended_at / 1e6) AS ended_at, j.attempt, j.tries, j.worker,
           headgate._text(j.waiting_on) AS waiting_on,
       j.cancel_requested, j.error, j.args, j.result, j.progress, j.metadata, j.unique_key AS "unique",
       ARRAY(SELECT headgate._text(k) FROM unnest(j.use_keys) AS k) AS limits
FROM headgate.jobs j;

CREATE VIEW headgate.holders_view AS
SELECT headgate._text(h.key) AS key, nullif(headgate._tenant(h.key), '') AS tenant, j.id AS job, j.task, j.queue,
    j.worker,
       to_timestamp(h.since / 1e6) AS since, h.reserved
FROM headgate.holders h JOIN headgate.jobs j ON j.seq = h.job;

CREATE VIEW headgate.waiting_view AS
SELECT headgate._text(j.waiting_on) AS key, nullif(headgate._tenant(j.waiting_on), '') AS tenant, j.queue, j.id AS job,
    j.task, j.priority,
       to_timestamp(j.due / 1e6) AS due,
       row_number() OVER (PARTITION BY j.waiting_on, j.queue ORDER BY j.priority, j.due, j.seq) AS place
FROM headgate.jobs j WHERE j.state = 'waiting';

CREATE VIEW headgate.limits_view AS
SELECT headgate._text(k.key) AS key, nullif(headgate._tenant(k.key), '') AS tenant, l.kind, r.number AS max,
    l.max AS declared,
       (SELECT count(*) FROM headgate.holders h WHERE h.key = k.key) AS held,
       (SELECT count(*) FROM headgate.jobs j WHERE j.state = 'waiting' AND j.waiting_on = k.key) AS waiting
FROM (SELECT h.key FROM headgate.holders h
      UNION SELECT j.waiting_on FROM headgate.jobs j WHERE j.state = 'waiting'
      UNION SELECT CASE WHEN l.kind = 'rate' THEN 'r0:' ELSE 'c0:' END || l.name FROM headgate.limits l) AS k
CROSS JOIN LATERAL headgate._rules(ARRAY[k.key]) AS r
LEFT JOIN headgate.limits l ON l.name = split_part(headgate._text(k.key), '=', 1);
