-- Limits are data: declare, override, compute. A change is written under the exclusive rules (1), which costs a few rows;
-- the waiters of its keys are then offered what there is room for, slice by slice (follow).

-- Whether a declaration says anything new.   p_declared   JSON array of limits
CREATE OR REPLACE FUNCTION headgate._differs(p_declared json) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT EXISTS (
            SELECT 1 FROM json_to_recordset(p_declared) AS d (name text, kind text, max bigint, period bigint,
                burst bigint, algorithm text)
            LEFT JOIN headgate.limits l ON l.name = d.name
            WHERE l.name IS NULL
               OR (l.kind, l.max, l.period, l.burst, l.algorithm) IS DISTINCT FROM (d.kind, d.max, d.period, d.burst,
                   d.algorithm))
    );
END $$;

-- Write what differs and note which limits changed; returns whether any did. The caller changes the rules.
-- A limit that would become one of another kind is refused: jobs that use the old one would no longer be limited.
CREATE OR REPLACE FUNCTION headgate._declare(p_declared json, p_now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_names text[];
    other   record;
BEGIN
    SELECT l.name, l.kind, n.kind AS wanted INTO other
    FROM json_to_recordset(p_declared) AS n (name text, kind text) JOIN headgate.limits l ON l.name = n.name
    WHERE l.kind <> n.kind LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'limit "%" is declared as % in this store, and now as %', other.name, other.kind, other.wanted
            USING ERRCODE = 'HG005', DETAIL = json_build_array(other.name, other.kind, other.wanted)::text;
    END IF;
    WITH written AS (
        INSERT INTO headgate.limits AS l (name, kind, max, period, burst, algorithm)
        SELECT DISTINCT ON (d.name) d.name, d.kind, d.max, d.period, d.burst, d.algorithm
        FROM ROWS FROM (json_to_recordset(p_declared) AS (name text, kind text, max bigint, period bigint, burst bigint,
            algorithm text))
            WITH ORDINALITY AS d (name, kind, max, period, burst, algorithm, n)
        ORDER BY d.name, d.n DESC
        ON CONFLICT (name) DO UPDATE
        SET max = excluded.max, period = excluded.period, burst = excluded.burst, algorithm = excluded.algorithm
        WHERE (l.max, l.period, l.burst, l.algorithm)
            IS DISTINCT FROM (excluded.max, excluded.period, excluded.burst, excluded.algorithm)
        RETURNING l.name
    )
    SELECT array_agg(w.name) INTO v_names FROM written w;
    PERFORM headgate._changed(v_names, p_now);
    RETURN v_names IS NOT NULL;
END $$;

-- The numbers of limits changed: caps count what runs already, and the keys that are waited for are to be looked at,
-- in slices (follow): under the exclusive lock nothing else goes on.   The caller changes the rules.
CREATE OR REPLACE FUNCTION headgate._changed(p_names text[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM headgate._adopt(p_names, p_now);
    INSERT INTO headgate.changes AS c (name, after) SELECT u.name, '' FROM unnest(p_names) AS u (name)
    ON CONFLICT (name) DO UPDATE SET after = '';
END $$;

-- Go on with a change of a limit: the next keys of it are looked at, and those that are waited for offer what room they
-- have now. Whoever changed it goes on until all is done; a sweep goes on where a caller died.
-- p_names   changes of these limits, waiting for others that are at it; NULL: of any that nothing is done about
-- `more` says that there is more to do.
-- Locks: rules (1), one row of changes (1), keys (4), waiters (5).   Reads: keys_name, live_waiting.
CREATE OR REPLACE FUNCTION headgate.follow(p_names text[], p_now bigint, p_ttl bigint, p_by text,
                                           OUT offered integer, OUT more boolean, OUT again boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    c_most  CONSTANT integer := 200;
    v_name  text;
    v_after text;
    v_keys  text[];
    v_wait  text[];
BEGIN
    offered := 0;
    again := false;
    PERFORM headgate._hold_rules();
    IF p_names IS NULL THEN
        SELECT c.name, c.after INTO v_name, v_after FROM headgate.changes c ORDER BY c.name LIMIT 1
        FOR UPDATE SKIP LOCKED;
    ELSE
        SELECT c.name, c.after INTO v_name, v_after FROM headgate.changes c WHERE c.name = ANY (p_names)
        ORDER BY c.name LIMIT 1 FOR UPDATE;
    END IF;
    IF v_name IS NULL THEN
        more := p_names IS NOT NULL AND EXISTS (SELECT 1 FROM headgate.changes c WHERE c.name = ANY (p_names));
        RETURN;
    END IF;
    v_keys := ARRAY(SELECT k.key FROM headgate.keys k WHERE headgate._name(k.key) = v_name AND k.key > v_after
                    ORDER BY k.key LIMIT c_most);
    v_wait := ARRAY(SELECT k.key FROM unnest(v_keys) AS k (key)
                    WHERE EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key));
    IF cardinality(v_wait) > 0 THEN
        PERFORM headgate._lock_keys(v_wait);
        offered := headgate._offer(v_wait, headgate._now(p_now), p_ttl);
        again := NOT headgate.wake(offered > 0, false, p_by);
    END IF;
    IF cardinality(v_keys) < c_most THEN
        DELETE FROM headgate.changes c WHERE c.name = v_name;
    ELSE
        UPDATE headgate.changes c SET after = v_keys[c_most] WHERE c.name = v_name;
    END IF;
    more := EXISTS (SELECT 1 FROM headgate.changes c WHERE p_names IS NULL OR c.name = ANY (p_names));
END $$;

-- Overrides that have run out are taken back; returns whether any was.
-- Locks: rules exclusive (1).   Reads: overrides_until.
CREATE OR REPLACE FUNCTION headgate.expire(p_now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_names text[];
BEGIN
    PERFORM headgate._change_rules();
    WITH gone AS (
        DELETE FROM headgate.overrides o WHERE o.until <= headgate._now(p_now) RETURNING o.name
    )
    SELECT array_agg(DISTINCT g.name) INTO v_names FROM gone g;
    PERFORM headgate._changed(v_names, headgate._now(p_now));
    RETURN v_names IS NOT NULL;
END $$;

-- A cap that is put up on a task or queue counts what runs already. Nobody starts or ends anything meanwhile, since all
-- that do hold the rules.   Reads: live_running.
CREATE OR REPLACE FUNCTION headgate._adopt(p_names text[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.holders (key, job, since, reserved)
    SELECT 'c0:' || c.name, j.seq, p_now, false
    FROM unnest(p_names) AS c (name) JOIN headgate.live j ON j.state = 'running'
        AND c.name IN ('task:' || j.task, 'queue:' || j.queue)
    LEFT JOIN headgate.limits l ON l.name = c.name
    WHERE l.kind <> 'rate' OR (l.kind IS NULL AND EXISTS (
        SELECT 1 FROM headgate.overrides o WHERE o.name = c.name AND o.value IS NULL AND o.tenant IS NULL))
    ON CONFLICT DO NOTHING;
END $$;

CREATE OR REPLACE FUNCTION headgate.declare(p_declared json, p_now bigint, p_ttl bigint, p_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT headgate._differs(p_declared) THEN
        RETURN false;
    END IF;
    PERFORM headgate._change_rules();
    RETURN headgate._declare(p_declared, headgate._now(p_now));
END $$;

-- Put an operator's value in force (p_clear false) or take it back; `there` says whether there was one, or, for a new
-- one, whether the name may be overridden.
CREATE OR REPLACE FUNCTION headgate.override(p_name text, p_value text, p_tenant text, p_max bigint, p_author text,
    p_at bigint, p_why text,
                                             p_until bigint, p_clear boolean, p_now bigint, p_ttl bigint, p_by text,
                                             OUT there boolean, OUT offered boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM headgate._change_rules();
    offered := false;
    IF NOT p_clear THEN
        there := p_name LIKE 'task:%' OR p_name LIKE 'queue:%' OR EXISTS (SELECT 1 FROM headgate.limits l
            WHERE l.name = p_name);
        IF NOT there THEN
            RETURN;
        END IF;
    END IF;
    DELETE FROM headgate.overrides o
    WHERE o.name = p_name AND o.value IS NOT DISTINCT FROM p_value AND o.tenant IS NOT DISTINCT FROM p_tenant;
    there := coalesce(there, FOUND);
    IF NOT p_clear THEN
        INSERT INTO headgate.overrides (name, value, tenant, max, "by", at, why, until)
        VALUES (p_name, p_value, p_tenant, p_max, p_author, p_at, p_why, p_until);
    END IF;
    IF there THEN
        PERFORM headgate._changed(ARRAY[p_name], headgate._now(p_now));
    END IF;
END $$;

-- The number computed for one key of a floating limit, acting at once. Whoever decides on the key holds its row, so the
-- rules need not stand still.
-- Locks: rules (1), the key (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.compute(p_key text, p_max bigint, p_now bigint, p_ttl bigint, p_by text)
    RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now     bigint;
    v_offered integer;
BEGIN
    PERFORM headgate._hold_rules();
    PERFORM headgate._lock_keys(ARRAY[p_key]);
    v_now := headgate._now(p_now);
    INSERT INTO headgate.computed (key, max, at) VALUES (p_key, p_max, v_now)
    ON CONFLICT (key) DO UPDATE SET max = excluded.max, at = excluded.at;
    v_offered := headgate._offer(ARRAY[p_key], v_now, p_ttl);
    PERFORM headgate.wake(v_offered > 0, false, p_by);
    RETURN v_offered > 0;
END $$;
