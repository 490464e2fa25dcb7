-- Limits are data: declare, override, compute. Each acts at once: waiters are offered what there is room for now.
-- Locks: rules exclusive (1), the keys of the name that are waited for (4), waiters (5).

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

-- Write what differs; returns the keys of these names that are waited for. The caller changes the rules.
CREATE OR REPLACE FUNCTION headgate._declare(p_declared json, p_now bigint) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_names text[];
BEGIN
    WITH written AS (
        INSERT INTO headgate.limits AS l (name, kind, max, period, burst, algorithm)
        SELECT DISTINCT ON (d.name) d.name, d.kind, d.max, d.period, d.burst, d.algorithm
        FROM ROWS FROM (json_to_recordset(p_declared) AS (name text, kind text, max bigint, period bigint, burst bigint,
            algorithm text))
            WITH ORDINALITY AS d (name, kind, max, period, burst, algorithm, n)
        ORDER BY d.name, d.n DESC
        ON CONFLICT (name) DO UPDATE
        SET kind = excluded.kind, max = excluded.max, period = excluded.period, burst = excluded.burst,
            algorithm = excluded.algorithm
        WHERE (l.kind, l.max, l.period, l.burst, l.algorithm)
            IS DISTINCT FROM (excluded.kind, excluded.max, excluded.period, excluded.burst, excluded.algorithm)
        RETURNING l.name
    )
    SELECT array_agg(w.name) INTO v_names FROM written w;
    PERFORM headgate._adopt(v_names, p_now);
    RETURN headgate._waited(v_names);
END $$;

-- The keys of these limits that have waiters: one index step per key, however many wait.   Reads: live_waiting.
CREATE OR REPLACE FUNCTION headgate._waited(p_names text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        WITH RECURSIVE k (key) AS (
            SELECT min(j.waiting_on) FROM headgate.live j WHERE j.state = 'waiting'
            UNION ALL
            SELECT (SELECT min(j.waiting_on) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on > k.key)
            FROM k WHERE k.key IS NOT NULL
        )
        SELECT coalesce(array_agg(k.key), '{}') FROM k
        WHERE k.key IS NOT NULL AND split_part(headgate._text(k.key), '=', 1) = ANY (p_names)
    );
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

-- Offer what these keys have; tell who sleeps.
CREATE OR REPLACE FUNCTION headgate._act(p_touched text[], p_now bigint, p_ttl bigint, p_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_offered integer;
BEGIN
    PERFORM headgate._lock_keys(p_touched);
    v_offered := headgate._offer(p_touched, p_now, p_ttl);
    PERFORM headgate.wake(v_offered > 0, false, p_by);
    RETURN v_offered > 0;
END $$;

CREATE OR REPLACE FUNCTION headgate.declare(p_declared json, p_now bigint, p_ttl bigint, p_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT headgate._differs(p_declared) THEN
        RETURN false;
    END IF;
    PERFORM headgate._change_rules();
    RETURN headgate._act(headgate._declare(p_declared, headgate._now(p_now)), headgate._now(p_now), p_ttl, p_by);
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
        PERFORM headgate._adopt(ARRAY[p_name], headgate._now(p_now));
        offered := headgate._act(headgate._waited(ARRAY[p_name]), headgate._now(p_now), p_ttl, p_by);
    END IF;
END $$;

-- The number computed for one key of a floating limit.
CREATE OR REPLACE FUNCTION headgate.compute(p_key text, p_max bigint, p_now bigint, p_ttl bigint, p_by text)
    RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now bigint := headgate._now(p_now);
BEGIN
    PERFORM headgate._change_rules();
    INSERT INTO headgate.computed (key, max, at) VALUES (p_key, p_max, v_now)
    ON CONFLICT (key) DO UPDATE SET max = excluded.max, at = excluded.at;
    RETURN headgate._act(headgate._waited(ARRAY[split_part(headgate._text(p_key), '=', 1)]), v_now, p_ttl, p_by);
END $$;
