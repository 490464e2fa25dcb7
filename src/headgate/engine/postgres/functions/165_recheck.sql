-- Self-healing (rule 20): look again at the next keys that are held or waited for, and mend what cannot be. Whatever is
-- found is the trace of a defect.
-- p_after   where the last slice ended; NULL begins, with jobs whose state cannot be read, and with running jobs whose
--           worker is not registered
-- `kinds` of what was mended: holder, waiter, timer, worker, state; with key, job and a third text each (the state of a
-- holder's job, the queue of a waiter, the name of a worker, what the state was). `after` is where the next slice begins;
-- NULL at the end.
-- Locks: rules (1), orphaned and unreadable jobs in order (3), keys (4), waiters (5).   Reads: holders, live_waiting,
-- live_running, live_garbled, rechecks_key: one step per key.
CREATE OR REPLACE FUNCTION headgate.recheck(p_after text, p_most integer, p_now bigint, p_ttl bigint, p_keep bigint[],
    p_by text,
    OUT kinds text[], OUT keys text[], OUT jobs text[], OUT others text[], OUT after text, OUT again boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now     bigint;
    v_workers text[];
    v_slice   text[];
    v_touched text[] := '{}';
    v_bad     bigint[] := '{}';
    r         record;
BEGIN
    kinds := '{}';
    keys := '{}';
    jobs := '{}';
    others := '{}';
    PERFORM headgate._hold_rules();
    IF p_after IS NULL THEN
        v_workers := headgate._orphaned();
        IF cardinality(v_workers) > 0 THEN
            FOR r IN SELECT j.id, l.worker FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
                     WHERE l.state = 'running' AND l.worker = ANY (v_workers) ORDER BY l.worker, l.seq LOOP
                kinds := kinds || 'worker'::text;
                keys := keys || ''::text;
                jobs := jobs || r.id;
                others := others || r.worker;
            END LOOP;
            PERFORM headgate._lose_workers(v_workers, headgate._now(p_now), p_ttl, p_keep, p_by);
        END IF;
        v_bad := headgate._unreadable(p_most);
        FOR r IN SELECT j.id, l.state FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
                 WHERE l.seq = ANY (v_bad) ORDER BY l.seq LOOP
            kinds := kinds || 'state'::text;
            keys := keys || ''::text;
            jobs := jobs || r.id;
            others := others || r.state;
        END LOOP;
    END IF;
    v_slice := headgate._keys_in_use(coalesce(p_after, ''), p_most + 1);
    IF cardinality(v_slice) > p_most THEN
        v_slice := v_slice[1 : p_most];
        after := v_slice[p_most];
    END IF;
    PERFORM headgate._lock_keys(v_slice || headgate._keys_of_unreadable(v_bad));
    v_now := headgate._now(p_now);
    IF cardinality(v_bad) > 0 THEN
        v_touched := headgate._end_unreadable(v_bad, v_now, p_keep);
    END IF;
    FOR r IN
        WITH gone AS (
            DELETE FROM headgate.holders h
            WHERE h.key = ANY (v_slice) AND NOT EXISTS (
                SELECT 1 FROM headgate.live l WHERE l.seq = h.job AND (l.state = 'running') <> h.reserved)
            RETURNING h.key, h.job
        )
        SELECT g.key, coalesce(j.id, g.job::text) AS id, coalesce(l.state, e.state) AS state FROM gone g
        LEFT JOIN headgate.jobs j ON j.seq = g.job LEFT JOIN headgate.live l ON l.seq = g.job
        LEFT JOIN headgate.ended e ON e.seq = g.job ORDER BY g.key, g.job
    LOOP
        v_touched := v_touched || r.key;
        kinds := kinds || 'holder'::text;
        keys := keys || r.key;
        jobs := jobs || r.id;
        others := array_append(others, r.state);
    END LOOP;
    v_slice := ARRAY(SELECT s.key FROM unnest(v_slice) AS s (key) WHERE s.key <> ALL (v_touched));
    FOR r IN SELECT w.key, w.queue, w.id FROM headgate._forgotten(v_slice, v_now) AS w LOOP
        -- What is noted down to be looked at is no defect: newcomers, waiters that another step held, limits that
        -- changed. It is asked afterwards: a newcomer locks no key, so that one may come, with its note, at any moment.
        CONTINUE WHEN EXISTS (SELECT 1 FROM headgate.rechecks c WHERE c.key = r.key)
            OR EXISTS (SELECT 1 FROM headgate.changes c
                       WHERE c.name IN (headgate._name(r.key), headgate._text(r.key)));
        v_touched := v_touched || r.key;
        kinds := kinds || CASE WHEN r.id IS NULL THEN 'timer' ELSE 'waiter' END::text;
        keys := keys || r.key;
        jobs := array_append(jobs, r.id);
        others := array_append(others, r.queue);
    END LOOP;
    again := false;
    IF cardinality(v_touched) > 0 THEN
        PERFORM headgate._offer(v_touched, v_now, p_ttl);
        again := NOT headgate.wake(true, false, p_by);
    END IF;
END $$;

-- Workers that run jobs and are not registered.   Locks: their jobs in order (3).   Reads: live_running.
CREATE OR REPLACE FUNCTION headgate._orphaned() RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_workers text[];
BEGIN
    WITH RECURSIVE w (id) AS (
        SELECT min(j.worker) FROM headgate.live j WHERE j.state = 'running'
        UNION ALL
        SELECT (SELECT min(j.worker) FROM headgate.live j WHERE j.state = 'running' AND j.worker > w.id)
        FROM w WHERE w.id IS NOT NULL
    )
    SELECT array_agg(w.id) INTO v_workers FROM w
    WHERE w.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM headgate.workers k WHERE k.id = w.id);
    IF v_workers IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM 1 FROM headgate.live j WHERE j.state = 'running' AND j.worker = ANY (v_workers) ORDER BY j.seq FOR UPDATE;
    -- A worker that registered meanwhile answers for what it runs.
    RETURN ARRAY(SELECT u.id FROM unnest(v_workers) AS u (id)
                 WHERE NOT EXISTS (SELECT 1 FROM headgate.workers k WHERE k.id = u.id) ORDER BY u.id);
END $$;

-- The next keys that are held or waited for, in the order of their idents.   Reads: holders, live_waiting.
CREATE OR REPLACE FUNCTION headgate._keys_in_use(p_after text, p_most integer) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE held (key, n) AS (
            SELECT (SELECT min(h.key) FROM headgate.holders h WHERE h.key > p_after), 1
            UNION ALL
            SELECT (SELECT min(h.key) FROM headgate.holders h WHERE h.key > d.key), d.n + 1
            FROM held d WHERE d.key IS NOT NULL AND d.n < p_most
        ), waited (key, n) AS (
            SELECT (SELECT min(j.waiting_on) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on > p_after),
                1
            UNION ALL
            SELECT (SELECT min(j.waiting_on) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on > d.key),
                d.n + 1
            FROM waited d WHERE d.key IS NOT NULL AND d.n < p_most
        )
        SELECT u.key FROM (SELECT d.key FROM held d UNION SELECT d.key FROM waited d) AS u (key)
        WHERE u.key IS NOT NULL ORDER BY u.key LIMIT p_most);
END $$;

-- Keys with waiters that should have been offered something: slots that are free beyond what is offered in a queue, with
-- its first waiter; or, without a job, rates and throttled keys whose timer is missing or rings too late.   The caller holds the keys.
CREATE OR REPLACE FUNCTION headgate._forgotten(p_keys text[], p_now bigint)
RETURNS TABLE (key text, queue text, id text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE q (key, queue) AS (
        SELECT u.key, (SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = u.key)
        FROM unnest(p_keys) AS u (key)
        UNION ALL
        SELECT q.key, (SELECT min(j.queue) FROM headgate.live j
                       WHERE j.state = 'waiting' AND j.waiting_on = q.key AND j.queue > q.queue)
        FROM q WHERE q.queue IS NOT NULL
    ), heads AS MATERIALIZED (
        SELECT q.key, q.queue, h.seq, h.units, f.free, f.timed, (
            SELECT coalesce(sum(o.units), 0)::bigint FROM headgate.live o
            WHERE o.offered_by = q.key AND o.queue = q.queue) AS offered
        FROM q CROSS JOIN LATERAL headgate._free(ARRAY[q.key], p_now) AS f
        CROSS JOIN LATERAL (
            SELECT j.seq, j.units FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = q.key AND j.queue = q.queue
            ORDER BY j.priority, j.tag, j.due, j.seq LIMIT 1) AS h
        WHERE q.queue IS NOT NULL
    )
    -- (A limit that was lifted is offered in slices.)
    SELECT h.key, h.queue, j.id FROM heads h JOIN headgate.jobs j ON j.seq = h.seq
    WHERE NOT h.timed AND h.free - h.offered >= h.units AND h.offered < {offer_most}
    UNION ALL
    SELECT t.key, NULL, NULL FROM (
        SELECT h.key, min(CASE WHEN h.key LIKE 'r%' THEN headgate._when(h.key, h.offered + h.units, p_now)
                               ELSE headgate._opens_further(h.key, p_now) END) AS at FROM heads h
        WHERE h.timed GROUP BY h.key
    ) AS t LEFT JOIN headgate.timers a ON a.key = t.key
    WHERE t.at IS NOT NULL AND coalesce(a.at > greatest(t.at, p_now), true);
END $$;
