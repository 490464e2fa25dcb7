-- Keys as operators look at them: which hold up most, and how single ones stand.

-- The keys that most jobs wait on, most first, as far as the first 100,000 places in lines tell; `exact` is false where
-- a line, or what holds the key, is longer than is counted.
-- Reads: live_waiting in order, holders by primary key.
CREATE OR REPLACE FUNCTION headgate._tightest(p_most integer)
RETURNS TABLE (key text, held bigint, waiting bigint, exact boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashagg = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_places CONSTANT integer := 100000;
    v_keys   text[];
BEGIN
    v_keys := ARRAY(
        SELECT g.key FROM (
            SELECT p.key, count(*) AS waiting FROM (
                SELECT j.waiting_on AS key FROM headgate.live j WHERE j.state = 'waiting'
                ORDER BY j.waiting_on, j.queue, j.priority, j.tag, j.due, j.seq LIMIT c_places) AS p
            GROUP BY p.key
        ) AS g ORDER BY g.waiting DESC, g.key LIMIT p_most);
    RETURN QUERY
    SELECT c.key, c.held, c.waiting, c.exact FROM headgate._key_counts(v_keys, c_places) AS c
    ORDER BY c.waiting DESC, c.key;
END $$;

-- How many hold each of some keys and wait for it, in their order; at most p_most of either are counted.
-- Reads: holders by primary key, live_waiting.
CREATE OR REPLACE FUNCTION headgate._key_counts(p_keys text[], p_most bigint)
RETURNS TABLE (key text, n bigint, held bigint, waiting bigint, exact boolean)
LANGUAGE sql STABLE AS $$
    SELECT u.key COLLATE "C", u.n, h.units, w.jobs, h.jobs < p_most AND w.jobs < p_most
    FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
    CROSS JOIN LATERAL (SELECT count(*) AS jobs, coalesce(sum(c.units), 0)::bigint AS units FROM (
        SELECT o.units FROM headgate.holders o WHERE o.key = u.key LIMIT p_most) AS c) AS h
    CROSS JOIN LATERAL (SELECT count(*) AS jobs FROM (
        SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = u.key LIMIT p_most) AS c) AS w
    ORDER BY u.n
$$;

-- How some keys stand: what each has left (NULL where nothing limits), when a rate key that has nothing will have a
-- token, the first of its holders and of its waiters, as JSON.   `at` is the time at which that is so
-- Reads: what _key_counts and _free read; live and jobs by primary key; live_waiting, one step for each queue of a key.
CREATE OR REPLACE FUNCTION headgate._key_stands(p_keys text[], p_holders integer, p_waiters integer, p_now bigint)
RETURNS TABLE (held bigint, waiting bigint, exact boolean, free bigint, earliest bigint, holders json, waiters json)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_counted CONSTANT bigint := 100000;
    c_least   CONSTANT bigint := 1000;
    v_now     bigint := headgate._now(p_now);
BEGIN
    RETURN QUERY
    SELECT c.held, c.waiting, c.exact, f.free, CASE WHEN f.free > 0 THEN NULL
                                                    WHEN c.key LIKE 'r%' THEN headgate._when(c.key, 1, v_now)
                                                    ELSE headgate._opens_further(c.key, v_now) END, h.first, w.first
    FROM headgate._key_counts(p_keys, greatest(c_least, c_counted / greatest(1, cardinality(p_keys)))) AS c
    CROSS JOIN LATERAL (SELECT CASE WHEN x.free < {unlimited} THEN greatest(0, x.free) END AS free
                        FROM headgate._free(ARRAY[c.key], v_now) AS x) AS f
    CROSS JOIN LATERAL (
        SELECT coalesce(json_agg(json_build_array(j.id, j.task, l.worker, o.since, o.reserved, o.units) ORDER BY o.since, o.job),
                        '[]') AS first
        FROM (SELECT i.* FROM headgate.holders i WHERE i.key = c.key ORDER BY i.since, i.job LIMIT p_holders) AS o
        JOIN headgate.jobs j ON j.seq = o.job LEFT JOIN headgate.live l ON l.seq = o.job) AS h
    CROSS JOIN LATERAL (
        SELECT coalesce(json_agg(json_build_array(j.id, o.task, o.queue, o.tenant, o.priority, o.due)
                                 ORDER BY o.priority, o.tag, o.due, o.seq), '[]') AS first
        FROM headgate._line(c.key, p_waiters) AS o JOIN headgate.jobs j ON j.seq = o.seq) AS w
    ORDER BY c.n;
END $$;

-- The first waiters of a key, across queues.   Reads: live_waiting, one step for each queue and as far as is shown.
CREATE OR REPLACE FUNCTION headgate._line(p_key text, p_most integer)
RETURNS TABLE (seq bigint, task text, queue text, tenant text, priority smallint, tag bigint, due bigint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE q (queue) AS (
        SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = p_key AND p_most > 0
        UNION ALL
        SELECT (SELECT min(j.queue) FROM headgate.live j
                WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue > q.queue)
        FROM q WHERE q.queue IS NOT NULL
    )
    SELECT w.seq, w.task, w.queue, w.tenant, w.priority, w.tag, w.due FROM q CROSS JOIN LATERAL (
        SELECT j.* FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue = q.queue
        ORDER BY j.priority, j.tag, j.due, j.seq LIMIT p_most
    ) AS w
    WHERE q.queue IS NOT NULL ORDER BY w.priority, w.tag, w.due, w.seq LIMIT p_most
$$;
