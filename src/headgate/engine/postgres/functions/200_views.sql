-- For people with psql or a BI tool. Columns are only ever added, at the end: the server refuses to replace a view
-- otherwise, and replacing keeps what was granted on it and what others have built upon it.

-- Whole jobs, unfinished ones, ended ones and both, for the statements that show them. (What reads a page in order reads
-- the first two: the planner cannot go through a union of joins in the order of an index.) A newcomer shows as ready
-- until its key has been looked at; the LIMIT keeps the planner from reading all of `rechecks` at once, which may be many.
CREATE OR REPLACE VIEW headgate._live_jobs AS
SELECT l.seq, j.id, l.task, l.queue, l.tenant, l.priority, l.due, CASE WHEN l.unmet THEN 'ready' ELSE l.state END
           AS state, j.enqueued_at, j.args, l.use_keys, l.use_units, j.retry, j.timeout, l.unique_key, j.metadata,
       j.retention, CASE WHEN NOT l.unmet THEN l.waiting_on END AS waiting_on, l.units, l.attempt, l.tries, l.worker,
       l.started_at, NULL::bigint AS ended_at, NULL::text AS outcome, l.cancel_requested, l.error, NULL::text AS result,
       l.progress, true AS live, l.offered_by, CASE WHEN NOT l.unmet THEN l.refusals END AS refusals,
       l.set_aside AND NOT l.lacks_thread AS set_aside, l.suspicion, l.lost, j.headers, j.share,
       l.tag, l.start_by, j.use_numbers
FROM (SELECT u.*, u.unseen AND u.state = 'waiting'
                  AND (SELECT 1 FROM headgate.rechecks c WHERE c.key = u.waiting_on LIMIT 1) IS NOT NULL AS unmet
      FROM headgate.live u) AS l
LEFT JOIN headgate.jobs j ON j.seq = l.seq;

CREATE OR REPLACE VIEW headgate._ended_jobs AS
SELECT e.seq, j.id, j.task, j.queue, j.tenant, j.priority, e.due, e.state, j.enqueued_at, j.args, j.use_keys,
       j.use_units, j.retry, j.timeout, j.unique_key, j.metadata, j.retention, NULL::text AS waiting_on,
       0::bigint AS units, e.attempt, e.tries, e.worker, e.started_at, e.ended_at, e.outcome, e.cancel_requested, e.error,
       e.result, e.progress, false AS live, NULL::text AS offered_by, NULL::integer AS refusals, false AS set_aside,
       0 AS suspicion, 0 AS lost, j.headers, j.share, coalesce(e.tag, 0) AS tag, e.start_by, j.use_numbers
FROM headgate.ended e LEFT JOIN headgate.jobs j ON j.seq = e.seq;

CREATE OR REPLACE VIEW headgate._jobs AS
SELECT l.* FROM headgate._live_jobs l UNION ALL SELECT e.* FROM headgate._ended_jobs e;

CREATE OR REPLACE VIEW headgate.jobs_view AS
SELECT j.id, j.task, j.queue, nullif(j.tenant, '') AS tenant, j.state, j.priority, to_timestamp(j.due / 1e6) AS due,
       to_timestamp(j.enqueued_at / 1e6) AS enqueued_at, to_timestamp(j.started_at / 1e6) AS started_at,
       to_timestamp(j.ended_at / 1e6) AS ended_at, j.attempt, j.tries, j.worker,
       headgate._text(j.waiting_on) AS waiting_on, j.cancel_requested, j.error, j.args, j.result, j.progress,
       j.metadata, j.unique_key AS "unique", ARRAY(SELECT headgate._text(k) FROM unnest(j.use_keys) AS k) AS limits,
       j.headers
FROM headgate._jobs j;

CREATE OR REPLACE VIEW headgate.holders_view AS
SELECT headgate._text(h.key) AS key, nullif(headgate._tenant(h.key), '') AS tenant, j.id AS job, j.task, j.queue,
       l.worker, to_timestamp(h.since / 1e6) AS since, h.reserved
FROM headgate.holders h JOIN headgate.jobs j ON j.seq = h.job LEFT JOIN headgate.live l ON l.seq = h.job;

CREATE OR REPLACE VIEW headgate.waiting_view AS
SELECT headgate._text(l.waiting_on) AS key, nullif(headgate._tenant(l.waiting_on), '') AS tenant, l.queue, j.id AS job,
       l.task, l.priority, to_timestamp(l.due / 1e6) AS due,
       row_number() OVER (PARTITION BY l.waiting_on, l.queue ORDER BY l.priority, l.tag, l.due, l.seq) AS place
FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq WHERE l.state = 'waiting';

CREATE OR REPLACE VIEW headgate.limits_view AS
SELECT headgate._text(k.key) AS key, nullif(headgate._tenant(k.key), '') AS tenant, l.kind, r.number AS max,
       l.max AS declared,
       (SELECT coalesce(sum(h.units), 0)::bigint FROM headgate.holders h WHERE h.key = k.key) AS held,
       (SELECT count(*) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key) AS waiting
FROM (SELECT h.key FROM headgate.holders h
      UNION SELECT j.waiting_on FROM headgate.live j WHERE j.state = 'waiting'
      UNION SELECT CASE WHEN l.kind = 'rate' THEN 'r0:' ELSE 'c0:' END || l.name FROM headgate.limits l) AS k
CROSS JOIN LATERAL headgate._in_force(ARRAY[k.key]) AS r
LEFT JOIN headgate.limits l ON l.name = split_part(headgate._text(k.key), '=', 1);

-- Only the states of these jobs.   Reads: jobs_id, live and ended by primary key, rechecks_key, whatever the planner
-- believes of tables that were not analyzed yet.
CREATE OR REPLACE FUNCTION headgate._states(p_ids text[]) RETURNS TABLE (id text, state text)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT j.id, CASE WHEN l.seq IS NULL THEN e.state
                      WHEN l.unseen AND l.state = 'waiting' AND (
                          SELECT 1 FROM headgate.rechecks c WHERE c.key = l.waiting_on LIMIT 1) IS NOT NULL THEN 'ready'
                      ELSE l.state END
    FROM headgate.jobs j LEFT JOIN headgate.live l ON l.seq = j.seq LEFT JOIN headgate.ended e ON e.seq = j.seq
    WHERE j.id = ANY (p_ids) AND (l.seq IS NOT NULL OR e.seq IS NOT NULL);
END $$;
