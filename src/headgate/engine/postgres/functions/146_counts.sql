-- How many jobs stand where, for pages that are looked at all day: with a bound, each count stops there, and says so.
-- What a count reads follows the bound and the queues, not what the store holds.

-- Newcomers whose key is yet to be looked at: they stand in its line, and show as ready.   `complete` is false where it
-- stopped: the others then count as waiting.
-- p_most   how many rows of such lines are read
-- Reads: rechecks from its front, live_waiting.
CREATE OR REPLACE FUNCTION headgate._unmet(p_most bigint, OUT queues text[], OUT jobs bigint[], OUT complete boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    c_entries CONSTANT integer := 10000;
    v_entries bigint;
    v_read    bigint;
BEGIN
    queues := '{}';
    jobs := '{}';
    complete := true;
    IF NOT EXISTS (SELECT 1 FROM headgate.rechecks) THEN
        RETURN;
    END IF;
    WITH noted AS MATERIALIZED (
        SELECT r.key, count(*) AS entries FROM (
            SELECT c.key FROM headgate.rechecks c WHERE c.ctid > '(0,0)'::tid LIMIT c_entries) AS r GROUP BY r.key
    ), lines AS MATERIALIZED (
        SELECT l.queue, l.unseen FROM noted n CROSS JOIN LATERAL (
            SELECT j.queue, j.unseen FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = n.key OFFSET 0) AS l
        LIMIT p_most
    ), found AS (
        SELECT l.queue, count(*) FILTER (WHERE l.unseen) AS jobs, count(*) AS read FROM lines l GROUP BY l.queue
    )
    SELECT coalesce(array_agg(f.queue), '{}'), coalesce(array_agg(f.jobs), '{}'), coalesce(sum(f.read), 0),
           (SELECT sum(n.entries) FROM noted n)
    INTO queues, jobs, v_read, v_entries FROM found f;
    complete := v_entries < c_entries AND v_read < p_most;
END $$;

-- How many jobs there are in each state; `exact` is false where the count stopped at p_most.
-- Jobs that succeeded are looked for among the latest that have ended: eleven times as many as are counted, or 10,000.
-- Reads: live_scheduled, live_ready, live_aside, live_suspects, live_waiting, live_running, live_garbled, ended_other,
-- ended by primary key backwards.
CREATE OR REPLACE FUNCTION headgate._totals(p_most bigint) RETURNS TABLE (state text, jobs bigint, exact boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_least CONSTANT bigint := 10000;
    v_look  bigint := greatest(11 * p_most, c_least);
    u       record;
    v_unmet bigint;
    v_found bigint;
BEGIN
    SELECT x.queues, x.jobs, x.complete INTO u FROM headgate._unmet(greatest(p_most, 1000)) AS x;
    v_unmet := (SELECT coalesce(sum(n), 0) FROM unnest(u.jobs) AS n);
    RETURN QUERY
    SELECT 'scheduled', count(*), count(*) < p_most FROM (
        SELECT 1 FROM headgate.live j WHERE j.state = 'scheduled' LIMIT p_most) AS c;
    RETURN QUERY
    SELECT 'ready', count(*) + v_unmet, count(*) < p_most AND u.complete FROM (
        SELECT 1 FROM (
            (SELECT 1 FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 LIMIT p_most)
            UNION ALL (SELECT 1 FROM headgate.live j WHERE j.set_aside LIMIT p_most)
            UNION ALL (SELECT 1 FROM headgate.live j
                       WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0 LIMIT p_most)) AS r
        LIMIT p_most) AS c;
    RETURN QUERY
    SELECT 'waiting', count(*) - v_unmet, count(*) < p_most + v_unmet AND u.complete FROM (
        SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' LIMIT p_most + v_unmet) AS c;
    RETURN QUERY
    SELECT 'running', count(*), count(*) < p_most FROM (
        SELECT 1 FROM headgate.live j WHERE j.state = 'running' LIMIT p_most) AS c;
    RETURN QUERY
    SELECT 'failed', count(*), count(*) < p_most FROM (
        SELECT 1 FROM (
            (SELECT 1 FROM headgate.ended e WHERE e.state = 'failed' AND e.state <> 'succeeded' LIMIT p_most)
            UNION ALL (SELECT 1 FROM headgate.live j WHERE headgate._garbled(j.state) LIMIT p_most)) AS f
        LIMIT p_most) AS c;
    RETURN QUERY
    SELECT 'cancelled', count(*), count(*) < p_most FROM (
        SELECT 1 FROM headgate.ended e WHERE e.state = 'cancelled' AND e.state <> 'succeeded' LIMIT p_most) AS c;
    SELECT count(*) INTO v_found FROM (
        SELECT 1 FROM (SELECT e.state FROM headgate.ended e ORDER BY e.seq DESC LIMIT v_look) AS l
        WHERE l.state = 'succeeded' LIMIT p_most) AS c;
    RETURN QUERY
    SELECT 'succeeded', v_found, v_found < p_most AND NOT EXISTS (
        SELECT 1 FROM headgate.ended e ORDER BY e.seq DESC OFFSET v_look LIMIT 1);
END $$;

-- How many unfinished jobs each queue has in each state, of each state at most about p_most; `exact` is false where a
-- count stopped there.
-- Reads: live_ready, live_aside, live_suspects, live_lined: a step for each queue, and as far as is counted; live_running.
CREATE OR REPLACE FUNCTION headgate._queues(p_most bigint)
RETURNS TABLE (queue text, state text, jobs bigint, exact boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    u record;
BEGIN
    SELECT x.queues, x.jobs, x.complete INTO u FROM headgate._unmet(greatest(p_most, 1000)) AS x;
    RETURN QUERY
    WITH RECURSIVE plain (queue) AS (
        SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0
        UNION ALL
        SELECT (SELECT min(j.queue) FROM headgate.live j
                WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 AND j.queue > p.queue)
        FROM plain p WHERE p.queue IS NOT NULL
    ), aside (queue) AS (
        SELECT min(j.queue) FROM headgate.live j WHERE j.set_aside
        UNION ALL
        SELECT (SELECT min(j.queue) FROM headgate.live j WHERE j.set_aside AND j.queue > a.queue)
        FROM aside a WHERE a.queue IS NOT NULL
    ), suspects (queue) AS (
        SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0
        UNION ALL
        SELECT (SELECT min(j.queue) FROM headgate.live j
                WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0 AND j.queue > s.queue)
        FROM suspects s WHERE s.queue IS NOT NULL
    ), lined (queue, state) AS (
        (SELECT j.queue, j.state FROM headgate.live j
         WHERE octet_length(j.queue) >= 0 AND (j.state = 'waiting' OR j.state = 'scheduled')
         ORDER BY j.queue, j.state LIMIT 1)
        UNION ALL
        SELECT n.* FROM lined l CROSS JOIN LATERAL (
            SELECT j.queue, j.state FROM headgate.live j
            WHERE octet_length(j.queue) >= 0 AND (j.state = 'waiting' OR j.state = 'scheduled')
              AND (j.queue, j.state) > (l.queue, l.state)
            ORDER BY j.queue, j.state LIMIT 1) AS n
    ), unmet AS (
        SELECT m.queue, m.jobs FROM unnest(u.queues, u.jobs) AS m (queue, jobs) WHERE m.jobs > 0
    ), ready AS (
        SELECT r.queue, sum(r.jobs)::bigint AS jobs, bool_and(r.exact) AS exact FROM (
            SELECT p.queue, c.jobs, c.jobs < p_most AS exact FROM plain p CROSS JOIN LATERAL (
                SELECT count(*) AS jobs FROM (
                    SELECT 1 FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0
                        AND j.queue = p.queue LIMIT p_most) AS b) AS c WHERE p.queue IS NOT NULL
            UNION ALL
            SELECT a.queue, c.jobs, c.jobs < p_most FROM aside a CROSS JOIN LATERAL (
                SELECT count(*) AS jobs FROM (
                    SELECT 1 FROM headgate.live j WHERE j.set_aside AND j.queue = a.queue LIMIT p_most) AS b) AS c
            WHERE a.queue IS NOT NULL
            UNION ALL
            SELECT s.queue, c.jobs, c.jobs < p_most FROM suspects s CROSS JOIN LATERAL (
                SELECT count(*) AS jobs FROM (
                    SELECT 1 FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0
                        AND j.queue = s.queue LIMIT p_most) AS b) AS c WHERE s.queue IS NOT NULL
            UNION ALL
            SELECT m.queue, m.jobs, u.complete FROM unmet m
        ) AS r GROUP BY r.queue
    )
    SELECT r.queue, 'ready', r.jobs, r.exact FROM ready r
    UNION ALL
    SELECT l.queue, l.state, c.jobs - w.unmet, c.jobs < p_most + w.unmet AND (l.state <> 'waiting' OR u.complete)
    FROM lined l
    CROSS JOIN LATERAL (SELECT CASE WHEN l.state = 'waiting' THEN coalesce((
        SELECT m.jobs FROM unmet m WHERE m.queue = l.queue), 0) ELSE 0 END AS unmet) AS w
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT 1 FROM headgate.live j
            WHERE octet_length(j.queue) >= 0 AND (j.state = 'waiting' OR j.state = 'scheduled')
              AND j.queue = l.queue AND j.state = l.state LIMIT p_most + w.unmet) AS b) AS c
    UNION ALL
    SELECT x.queue, 'running', count(*), true FROM headgate.live x WHERE x.state = 'running' GROUP BY x.queue;
END $$;
