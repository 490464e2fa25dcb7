-- What time does, each duty bounded: due jobs arrive, those that have not started in time end, lapsed workers lose their
-- attempts, timers ring, throttled keys are open wide again, reservations and weights run out, ended jobs, meters and idle
-- keys are forgotten. Several may sweep at once.
-- Left to steps of their own: `look` says that there are keys to look at that no claim has looked at; `expiring` that
-- overrides have run out; `changed` that a change of a limit was not followed to its end;
-- `retagging` that there are shares to be tagged anew.   `late` is whether jobs ended that had not started in time
-- `failed` are the jobs that fail because their worker was lost, with their tasks and errors.
-- p_most    how many of each kind; lost workers are taken whole, until they have had as many attempts
-- Locks: rules (1), lapsed workers (2), lost jobs in order, then due and old ones (3), keys (4), waiters (5).
-- Reads: live_scheduled, live_starting, live_running, ended_expiry, timers_at, workers_lease, holders_expiry, gates.
CREATE OR REPLACE FUNCTION headgate.sweep(p_now bigint, p_ttl bigint, p_keep bigint[], p_by text, p_most integer,
    OUT at bigint, OUT due integer, OUT lost integer, OUT offered integer, OUT expired integer, OUT more boolean,
        OUT next_due bigint,
    OUT again boolean, OUT wake boolean, OUT look boolean, OUT expiring boolean, OUT changed boolean,
    OUT retagging boolean, OUT late boolean, OUT failed text[],
    OUT tasks text[], OUT errors text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_workers text[];
    v_lapsed  integer;
    v_due     bigint[];
    v_late    bigint[];
    v_wide    text[];
    v_lost    bigint[];
    v_old     bigint[];
    v_timers  text[];
    v_kept    text[];
    v_touched text[] := '{}';
BEGIN
    PERFORM headgate._hold_rules();
    at := headgate._now(p_now);
    failed := '{}';
    tasks := '{}';
    errors := '{}';
    v_workers := ARRAY(SELECT l.id FROM (
        SELECT w.id, w.registered_at FROM headgate.workers w WHERE w.lease_until <= at ORDER BY w.lease_until LIMIT 100
        FOR UPDATE SKIP LOCKED) AS l ORDER BY l.registered_at, l.id);
    v_lapsed := cardinality(v_workers);
    v_lost := '{}';
    IF v_lapsed > 0 THEN
        -- Whole workers, since blame compares what one ran.
        v_workers := ARRAY(
            SELECT s.id FROM (
                SELECT u.id, u.n, sum((SELECT count(*) FROM headgate.live j
                                       WHERE j.state = 'running' AND j.worker = u.id)) OVER (ORDER BY u.n)
                                  - (SELECT count(*) FROM headgate.live j
                                     WHERE j.state = 'running' AND j.worker = u.id) AS before
                FROM unnest(v_workers) WITH ORDINALITY AS u (id, n)
            ) AS s WHERE s.before < p_most ORDER BY s.n);
        v_lost := ARRAY(SELECT j.seq FROM headgate.live j WHERE j.state = 'running' AND j.worker = ANY (v_workers)
                        ORDER BY j.seq FOR UPDATE);
    END IF;
    v_late := ARRAY(SELECT j.seq FROM headgate.live j
                    WHERE j.start_by IS NOT NULL AND j.start_by <= at AND j.state IN ('scheduled', 'ready', 'waiting')
                    ORDER BY j.start_by LIMIT p_most FOR UPDATE SKIP LOCKED);
    v_due := ARRAY(SELECT j.seq FROM headgate.live j WHERE j.state = 'scheduled' AND j.due <= at AND j.seq <> ALL (v_late)
                   ORDER BY j.due, j.seq LIMIT p_most FOR UPDATE SKIP LOCKED);
    -- The step that holds a job's row in `jobs` decides about its row in `ended`, which must not be locked before: it
    -- would stay so where the other one is passed over. Looked at again after locking: a job may have been restarted.
    v_old := ARRAY(SELECT e.seq FROM headgate.ended e JOIN headgate.jobs j ON j.seq = e.seq WHERE e.expires_at <= at
        ORDER BY e.expires_at LIMIT p_most FOR UPDATE OF j SKIP LOCKED);
    IF cardinality(v_old) > 0 THEN
        v_old := ARRAY(SELECT e.seq FROM headgate.ended e WHERE e.seq = ANY (v_old) AND e.expires_at <= at);
    END IF;
    v_timers := ARRAY(SELECT t.key FROM headgate.timers t WHERE t.at <= sweep.at ORDER BY t.at LIMIT p_most);
    v_kept := ARRAY(SELECT h.key FROM headgate.holders h WHERE h.expires_at <= at LIMIT p_most);
    v_wide := ARRAY(SELECT g.key FROM headgate.gates g WHERE g.wide_at <= at ORDER BY g.key LIMIT p_most);
    -- What has nothing to do is not even planned: a process's first sweep shares its time with the first jobs.
    v_touched := v_timers || v_kept || v_wide;
    IF cardinality(v_due) + cardinality(v_lost) + cardinality(v_late) > 0 THEN
        v_touched := v_touched || headgate._keys_of(v_due || v_lost || v_late);
    END IF;
    IF cardinality(v_touched) > 0 THEN
        PERFORM headgate._lock_keys(v_touched);
        at := headgate._now(p_now);
    END IF;
    v_touched := headgate._leave(v_late, {expired}, at, p_keep);
    v_touched := headgate._arrive(v_due, at, p_keep, v_touched, false);
    IF v_wide <> '{}' THEN
        v_touched := v_touched || headgate._open_wide(v_wide, at);
    END IF;
    IF v_lapsed > 0 THEN
        SELECT l.touched, l.failed, l.tasks, l.errors INTO v_touched, failed, tasks, errors
        FROM headgate._lose_each(v_workers, at, p_keep, v_touched) AS l;
        DELETE FROM headgate.workers w WHERE w.id = ANY (v_workers);
    END IF;
    v_touched := v_touched || v_timers;
    IF cardinality(v_kept) > 0 THEN
        -- A caller's transaction that replaces a job may have given its reservations back and stay open for long.
        WITH lapsed AS MATERIALIZED (
            SELECT h.key, h.job FROM headgate.holders h WHERE h.expires_at <= at AND h.key = ANY (v_kept)
            FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM headgate.holders h USING lapsed o WHERE h.key = o.key AND h.job = o.job RETURNING h.key
        )
        SELECT v_touched || coalesce(array_agg(g.key), '{}') INTO v_touched FROM gone g;
    END IF;
    IF cardinality(v_old) > 0 THEN
        DELETE FROM headgate.attempts a WHERE a.job = ANY (v_old);
        DELETE FROM headgate.ended e WHERE e.seq = ANY (v_old);
        DELETE FROM headgate.jobs j WHERE j.seq = ANY (v_old);
    END IF;
    PERFORM headgate._expire_weights(at);
    offered := headgate._offer(v_touched, at, p_ttl);

    late := v_late <> '{}' OR v_due <> '{}';
    due := cardinality(v_due);
    lost := cardinality(v_lost);
    expired := cardinality(v_old);
    more := headgate._forget(at) OR p_most IN (due, expired, cardinality(v_timers), cardinality(v_late))
        OR lost >= p_most OR cardinality(v_workers) < v_lapsed;
    look := EXISTS (SELECT 1 FROM headgate.rechecks);
    expiring := EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.until <= at);
    changed := EXISTS (SELECT 1 FROM headgate.changes);
    retagging := EXISTS (SELECT 1 FROM headgate.retags);
    next_due := (SELECT d.at FROM headgate._next_due() AS d);
    wake := due + lost + offered > 0;
    again := NOT headgate.wake(wake, lost > 0 OR late, p_by);
END $$;

-- Throttled keys whose numbers are what they were before have no gate any more; returns them. Where a number was raised
-- meanwhile, it takes longer.   The caller holds the keys.
CREATE OR REPLACE FUNCTION headgate._open_wide(p_keys text[], p_now bigint) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
BEGIN
    UPDATE headgate.gates g SET wide_at = headgate._wide_at(f.number, f.opens_at, f.step)
    FROM headgate._in_force(p_keys) AS f WHERE g.key = f.key;
    WITH gone AS (
        DELETE FROM headgate.gates g WHERE g.key = ANY (p_keys) AND g.wide_at <= p_now RETURNING g.key
    ), unarmed AS (
        DELETE FROM headgate.timers t USING gone g WHERE t.key = g.key
    )
    SELECT array_agg(g.key) INTO v_keys FROM gone g;
    RETURN coalesce(v_keys, '{}');
END $$;

-- Keys that are to be looked at and that no claim has looked at yet: their waiters are offered what there is room for.
-- Locks: rules (1), keys (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.look(p_now bigint, p_ttl bigint, p_by text,
                                         OUT offered integer, OUT more boolean, OUT again boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_checks text[];
BEGIN
    PERFORM headgate._hold_rules();
    v_checks := headgate._checks(250, NULL);
    PERFORM headgate._lock_keys(v_checks);
    offered := headgate._offer(v_checks, headgate._now(p_now), p_ttl);
    more := EXISTS (SELECT 1 FROM headgate.rechecks);
    again := NOT headgate.wake(offered > 0, false, p_by);
END $$;

-- Newcomers whose key was not looked at yet, or that are yet to arrive, arrive now, in the order in which they came, as they
-- would have where enqueue may lock keys: for the comparison of engines.
-- Returns them with the state that each got, before any of them is offered anything.
CREATE OR REPLACE FUNCTION headgate.meet(p_now bigint, p_ttl bigint, p_keep bigint[], OUT ids text[], OUT states text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now     bigint := headgate._now(p_now);
    v_new     bigint[];
    v_checks  text[];
    v_touched text[];
BEGIN
    PERFORM headgate._hold_rules();
    v_checks := headgate._checks(100000, NULL);
    -- A newcomer that another step holds stays in line, and is offered what there is.
    v_new := ARRAY(
        SELECT j.seq FROM headgate.live j
        WHERE j.newcomer OR j.state = 'waiting' AND j.unseen AND j.waiting_on = ANY (v_checks)
        ORDER BY j.seq FOR UPDATE SKIP LOCKED);
    IF v_checks <> '{}' OR v_new <> '{}' THEN
        UPDATE headgate.live j
        SET state = 'scheduled', waiting_on = NULL, units = 0, refusals = NULL, unseen = false, newcomer = true
        WHERE j.seq = ANY (v_new);
        PERFORM headgate._lock_keys(v_checks || headgate._keys_of(v_new));
        v_touched := headgate._arrive(v_new, v_now, p_keep, v_checks, false);
        SELECT array_agg(j.id), array_agg(coalesce(l.state, e.state)) INTO ids, states
        FROM headgate.jobs j LEFT JOIN headgate.live l ON l.seq = j.seq LEFT JOIN headgate.ended e ON e.seq = j.seq
        WHERE j.seq = ANY (v_new);
        PERFORM headgate._offer(v_touched, v_now, p_ttl);
    END IF;
END $$;
