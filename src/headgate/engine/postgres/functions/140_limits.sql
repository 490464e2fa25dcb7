-- Limits are data: declare, override, compute. A change is written under the exclusive rules (1), which costs a few rows;
-- the waiters of its keys are then offered what there is room for, slice by slice (follow).

-- What a store keeps of a declaration, and whether it is anything new. What comes with single jobs (`by_job`) does not
-- change the number of other keys: jobs bring their numbers from then on (in_force.py: declared_anew).
-- (What the release before declares says nothing of the later fields.)   p_declared   JSON array of limits
CREATE OR REPLACE FUNCTION headgate._anew(p_declared json)
RETURNS TABLE (n bigint, name text, kind text, max bigint, period bigint, burst bigint, algorithm text, sized boolean,
               estimated boolean, adaptive boolean, per_key boolean, when_full text, max_waiting bigint, on_overflow text,
               differs boolean)
LANGUAGE sql STABLE AS $$
    SELECT a.n, a.name, a.kind, a.max, a.period, a.burst, a.algorithm, a.sized, a.estimated, a.adaptive, a.per_key,
           a.when_full, a.max_waiting, a.on_overflow,
           l.name IS NULL
           OR (l.kind, l.max, l.period, l.burst, l.algorithm, l.sized, l.estimated, l.adaptive, l.per_key, l.when_full,
               l.max_waiting, l.on_overflow)
              IS DISTINCT FROM (a.kind, a.max, a.period, a.burst, a.algorithm, a.sized, a.estimated, a.adaptive, a.per_key,
               a.when_full, a.max_waiting, a.on_overflow)
    FROM (
        SELECT d.n, d.name, d.kind, CASE WHEN d.by_job AND k.name IS NOT NULL THEN k.max ELSE d.max END AS max, d.period,
               d.burst, d.algorithm, coalesce(d.sized, false) AS sized, coalesce(d.estimated, false) AS estimated,
               coalesce(d.adaptive, false) AS adaptive,
               coalesce(d.per_key, false) OR coalesce(k.per_key, false)
               OR coalesce(d.by_job AND k.name IS NOT NULL AND d.max IS DISTINCT FROM k.max, false) AS per_key,
               coalesce(d.when_full, 'wait') AS when_full, d.max_waiting,
               coalesce(d.on_overflow, 'refuse') AS on_overflow
        FROM ROWS FROM (json_to_recordset(p_declared) AS (name text, kind text, max bigint, period bigint, burst bigint,
            algorithm text, sized boolean, estimated boolean, adaptive boolean, per_key boolean, when_full text,
            max_waiting bigint, on_overflow text, by_job boolean))
            WITH ORDINALITY AS d (name, kind, max, period, burst, algorithm, sized, estimated, adaptive, per_key,
                                  when_full, max_waiting, on_overflow, by_job, n)
        LEFT JOIN headgate.limits k ON k.name = d.name
    ) AS a LEFT JOIN headgate.limits l ON l.name = a.name
$$;

-- Whether a declaration says anything new.   p_declared   JSON array of limits
CREATE OR REPLACE FUNCTION headgate._differs(p_declared json) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM headgate._anew(p_declared) AS d WHERE d.differs);
END $$;

-- Write what differs and note which limits changed; returns whether any did. The caller changes the rules.
-- A limit that would become one of another kind is refused: jobs that use the old one would no longer be limited.
CREATE OR REPLACE FUNCTION headgate._declare(p_declared json, p_now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_names  text[];
    v_raised text[];
    other    record;
BEGIN
    SELECT l.name, l.kind, n.kind AS wanted INTO other
    FROM json_to_recordset(p_declared) AS n (name text, kind text) JOIN headgate.limits l ON l.name = n.name
    WHERE l.kind <> n.kind LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'limit "%" is declared as % in this store, and now as %', other.name, other.kind, other.wanted
            USING ERRCODE = 'HG005', DETAIL = json_build_array(other.name, other.kind, other.wanted)::text;
    END IF;
    v_raised := ARRAY(
        SELECT d.name FROM headgate._anew(p_declared) AS d JOIN headgate.limits l ON l.name = d.name
        WHERE l.kind = 'rate' OR headgate._raises(l.max, d.max) OR d.adaptive OR d.per_key OR l.adaptive OR l.per_key);
    WITH written AS (
        INSERT INTO headgate.limits AS l (name, kind, max, period, burst, algorithm, sized, estimated, adaptive, per_key,
                                          when_full, max_waiting, on_overflow)
        SELECT DISTINCT ON (d.name) d.name, d.kind, d.max, d.period, d.burst, d.algorithm, d.sized, d.estimated,
               d.adaptive, d.per_key, d.when_full, d.max_waiting, d.on_overflow
        FROM headgate._anew(p_declared) AS d WHERE d.differs ORDER BY d.name, d.n DESC
        ON CONFLICT (name) DO UPDATE
        SET max = excluded.max, period = excluded.period, burst = excluded.burst, algorithm = excluded.algorithm,
            sized = excluded.sized, estimated = excluded.estimated, adaptive = excluded.adaptive,
            per_key = excluded.per_key, when_full = excluded.when_full, max_waiting = excluded.max_waiting,
            on_overflow = excluded.on_overflow
        RETURNING l.name
    )
    SELECT array_agg(w.name) INTO v_names FROM written w;
    PERFORM headgate._adopt(v_names, p_now);
    PERFORM headgate._changed(ARRAY(SELECT u.name FROM unnest(v_names) AS u (name) WHERE u.name = ANY (v_raised)));
    RETURN v_names IS NOT NULL;
END $$;

-- Whether a number of slots that replaces another may leave room where there was none. (A smaller rate may: its tokens
-- are worth more time.)
CREATE OR REPLACE FUNCTION headgate._raises(p_before bigint, p_after bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_before IS NOT NULL AND (p_after IS NULL OR p_after > p_before)
$$;

-- Numbers changed so that there may be room: the keys that are waited for are to be looked at, in slices (follow), since
-- nothing else goes on under the exclusive lock.
-- p_whats   names of limits, or texts of keys (`name=value`) where only these have another number
-- The caller changes the rules.
CREATE OR REPLACE FUNCTION headgate._changed(p_whats text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.changes AS c (name, after) SELECT DISTINCT u.name, '' FROM unnest(p_whats) AS u (name)
    ON CONFLICT (name) DO UPDATE SET after = '';
END $$;

-- Go on with a change of a limit: the next keys of it are looked at, and those that are waited for offer what room they
-- have now. The process that made the change goes on until all is done; sweeps go on with what it leaves.
-- p_names   these changes, waiting for other processes that work on them; NULL: any that no process works on
-- `more` says that there is more to do.
-- Locks: rules (1), one row of changes (1), keys (4), waiters (5).   Reads: keys_name, keys_text, live_waiting.
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
    IF strpos(v_name, '=') = 0 THEN
        v_keys := ARRAY(SELECT k.key FROM headgate.keys k WHERE headgate._name(k.key) = v_name AND k.key > v_after
                        ORDER BY headgate._name(k.key), k.key LIMIT c_most);
    ELSE  -- one key of each tenant
        v_keys := ARRAY(SELECT k.key FROM headgate.keys k
                        WHERE headgate._name(k.key) = split_part(v_name, '=', 1) AND headgate._text(k.key) = v_name
                          AND k.key > v_after
                        ORDER BY k.key LIMIT c_most);
    END IF;
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
    v_whats text[];
BEGIN
    PERFORM headgate._change_rules();
    WITH gone AS (
        DELETE FROM headgate.overrides o WHERE o.until <= headgate._now(p_now) RETURNING o.name, o.value
    )
    SELECT array_agg(DISTINCT g.name), array_agg(g.name || coalesce('=' || g.value, '')) INTO v_names, v_whats
    FROM gone g;
    PERFORM headgate._adopt(v_names, headgate._now(p_now));
    PERFORM headgate._changed(v_whats);
    RETURN v_names IS NOT NULL;
END $$;

-- A cap that is put up on a task or queue counts what runs already. Nothing starts or ends meanwhile, since all steps
-- that start or end a job hold the rules.   Reads: live_running.
CREATE OR REPLACE FUNCTION headgate._adopt(p_names text[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.holders (key, job, since, reserved)
    SELECT 'c0:' || c.name, j.seq, p_now, false
    FROM unnest(p_names) AS c (name) JOIN headgate.live j ON j.state = 'running'
        AND c.name IN ('task:' || j.task, 'queue:' || j.queue)
    WHERE headgate._is_cap(c.name)
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
DECLARE
    v_before  bigint;
    v_new     boolean;         -- whether nothing was said for this scope before
    v_limit   record;
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
    WHERE o.name = p_name AND o.value IS NOT DISTINCT FROM p_value AND o.tenant IS NOT DISTINCT FROM p_tenant
    RETURNING o.max INTO v_before;
    v_new := NOT FOUND;
    there := coalesce(there, NOT v_new);
    IF NOT p_clear THEN
        INSERT INTO headgate.overrides (name, value, tenant, max, "by", at, why, until)
        VALUES (p_name, p_value, p_tenant, p_max, p_author, p_at, p_why, p_until);
    END IF;
    IF NOT there THEN
        RETURN;
    END IF;
    PERFORM headgate._adopt(ARRAY[p_name], headgate._now(p_now));
    -- Numbers that fell make no room. What the scope had before, or has now without an override, is known where that is
    -- the declared number of the whole name.
    SELECT l.kind, l.max, l.adaptive OR l.per_key AS own INTO v_limit FROM headgate.limits l WHERE l.name = p_name;
    IF v_limit.kind IS DISTINCT FROM 'rate' AND (NOT (v_new OR p_clear)
        OR p_value IS NULL AND p_tenant IS NULL AND v_limit.kind = 'concurrency' AND NOT v_limit.own) THEN
        IF NOT headgate._raises(CASE WHEN v_new THEN v_limit.max ELSE v_before END,
                                CASE WHEN p_clear THEN v_limit.max ELSE p_max END) THEN
            RETURN;
        END IF;
    END IF;
    PERFORM headgate._changed(ARRAY[p_name || coalesce('=' || p_value, '')]);
END $$;

-- The number computed for one key of a floating limit, or learnt for one of an adaptive limit, acting at once; false where
-- nothing was offered. A step that decides on the key holds its row, so the rules need not stand still.
-- Locks: rules (1), the key (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.compute(p_key text, p_max bigint, p_now bigint, p_ttl bigint, p_by text)
    RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM headgate._hold_rules();
    PERFORM headgate._lock_keys(ARRAY[p_key]);
    RETURN headgate._compute(p_key, p_max, NULL, headgate._now(p_now), p_ttl, p_by);
END $$;

-- The number learnt for one key of an adaptive limit, and why, only if the one in force, overrides aside, is p_seen.
-- `done` says whether it was; `offered` whether waiters were offered anything.   Locks: as compute
CREATE OR REPLACE FUNCTION headgate.learn(p_key text, p_max bigint, p_seen bigint, p_reason text, p_now bigint, p_ttl bigint,
                                          p_by text, OUT done boolean, OUT offered boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM headgate._hold_rules();
    PERFORM headgate._lock_keys(ARRAY[p_key]);
    offered := false;
    done := (SELECT f.own IS NOT DISTINCT FROM p_seen FROM headgate._in_force(ARRAY[p_key]) AS f);
    IF done THEN
        offered := headgate._compute(p_key, p_max, p_reason, headgate._now(p_now), p_ttl, p_by);
    END IF;
END $$;

-- Write a key's number, and offer what room it makes.   The caller holds the key.
CREATE OR REPLACE FUNCTION headgate._compute(p_key text, p_max bigint, p_reason text, p_now bigint, p_ttl bigint, p_by text)
    RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_offered integer;
BEGIN
    INSERT INTO headgate.computed (key, max, at, reason) VALUES (p_key, p_max, p_now, p_reason)
    ON CONFLICT (key) DO UPDATE SET max = excluded.max, at = excluded.at, reason = excluded.reason;
    v_offered := headgate._offer(ARRAY[p_key], p_now, p_ttl);
    PERFORM headgate.wake(v_offered > 0, false, p_by);
    RETURN v_offered > 0;
END $$;
