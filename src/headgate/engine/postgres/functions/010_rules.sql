-- The numbers in force. Mirrors in_force.py and rates.py.

-- The rule of each key. `number` NULL does not limit.   p_keys   n is the position in p_keys
-- `lines_up` says that jobs may wait for it although some of it is free: for time, or for more than there is. `opens_at`
-- and `step` are those of a key that was throttled.
-- Reads: limits, overrides_name, gates; of limits whose keys have numbers of their own computed and brought.
CREATE OR REPLACE FUNCTION headgate._in_force(p_keys text[])
RETURNS TABLE (key text, n integer, rate boolean, number bigint, period bigint, burst bigint, exact boolean,
               "interval" bigint, most bigint, estimated boolean, lines_up boolean, opens_at bigint, step bigint,
               own bigint)
LANGUAGE sql STABLE AS $$
    SELECT r.key, r.n, r.rate, r.number, r.period, r.burst, r.exact,
           CASE WHEN r.number > 0 THEN (r.period + r.number - 1) / r.number ELSE r.period END,
           CASE WHEN coalesce(r.number, 0) = 0 THEN 0 WHEN r.exact THEN r.number ELSE r.burst END,
           r.estimated, r.rate OR r.sized OR r.opens_at IS NOT NULL, r.opens_at, r.step, r.own
    FROM (
        SELECT k.key, k.n::integer, k.rate, m.number, coalesce(l.period, 1) AS period,
               coalesce(l.algorithm = 'sliding_window', false) AS exact,
               coalesce(nullif(CASE WHEN l.algorithm = 'leaky' THEN 1 ELSE coalesce(l.burst, m.number)
                   END, 0), 1) AS burst,
               coalesce(l.sized, false) AS sized, coalesce(l.estimated, false) AS estimated, g.opens_at, g.step, m.own
        FROM (
            SELECT t.key, t.n, left(t.key, 1) = 'r' AS rate, headgate._tenant(t.key) AS tenant,
                   split_part(t.text, '=', 1) AS name,
                   CASE WHEN strpos(t.text, '=') > 0 THEN substr(t.text, strpos(t.text, '=') + 1) END AS value
            FROM (SELECT u.key, u.n, headgate._text(u.key) AS text
                  FROM unnest(p_keys) WITH ORDINALITY AS u (key, n) OFFSET 0) AS t
            OFFSET 0
        ) AS k
        LEFT JOIN headgate.limits l ON l.name = k.name
        LEFT JOIN LATERAL (
            SELECT i.max FROM headgate.computed i WHERE i.key = k.key AND (l.kind = 'floating' OR l.adaptive)
        ) AS c ON true
        LEFT JOIN LATERAL (
            SELECT i.number FROM headgate.brought i WHERE i.key = k.key AND l.per_key ORDER BY i.seq DESC LIMIT 1
        ) AS b ON true
        LEFT JOIN headgate.gates g ON g.key = k.key
        LEFT JOIN LATERAL (
            SELECT true AS there, o.max FROM headgate.overrides o
            WHERE o.name = k.name
              AND (o.value IS NULL OR o.value = k.value)
              AND (o.tenant IS NULL OR (o.tenant = k.tenant AND k.tenant <> ''))
            ORDER BY o.value IS NULL, o.tenant IS NULL LIMIT 1
        ) AS o ON true
        CROSS JOIN LATERAL (
            SELECT CASE WHEN k.rate AND l.kind IS DISTINCT FROM 'rate' THEN NULL
                        WHEN o.there THEN o.max ELSE w.own END AS number, w.own
            FROM (SELECT CASE WHEN l.kind IS NULL OR (l.kind = 'rate') <> k.rate THEN NULL
                              ELSE coalesce(b.number, c.max, l.max) END AS own) AS w
        ) AS m
    ) AS r
$$;

-- From when on it is open wide; one without a number after so many steps as admission.py says.
CREATE OR REPLACE FUNCTION headgate._wide_at(p_number bigint, p_opens_at bigint, p_step bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_opens_at + p_step * greatest(coalesce(p_number, {gate_steps}) - 1, 0)
$$;

-- The number of slots at a time: a key that was throttled is closed until `p_opens_at`, and opens by one more each
-- `p_step`.
CREATE OR REPLACE FUNCTION headgate._opened(p_number bigint, p_opens_at bigint, p_step bigint, p_now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_opens_at IS NULL OR p_now >= headgate._wide_at(p_number, p_opens_at, p_step) THEN p_number
                WHEN p_now < p_opens_at THEN 0
                ELSE least(p_number, 1 + (p_now - p_opens_at) / p_step) END
$$;

-- When a throttled key will next open further; NULL if it is open wide, or was not throttled.
-- Reads: what _in_force reads.
CREATE OR REPLACE FUNCTION headgate._opens_further(p_key text, p_now bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT CASE WHEN p_now >= headgate._wide_at(r.number, r.opens_at, r.step) THEN NULL
                    WHEN p_now < r.opens_at THEN r.opens_at
                    ELSE p_now + r.step - (p_now - r.opens_at) % r.step END
        FROM headgate._in_force(ARRAY[p_key]) AS r WHERE NOT r.rate);
END $$;

-- Slots or whole tokens that are left of each key; {unlimited} where nothing limits. `timed` says that time gives it
-- room; `lines_up` as _in_force says.
-- Reads: holders by primary key, meters, starts_key.
CREATE OR REPLACE FUNCTION headgate._free(p_keys text[], p_now bigint)
RETURNS TABLE (key text, n integer, number bigint, free bigint, lines_up boolean, timed boolean)
LANGUAGE sql STABLE AS $$
    SELECT r.key, r.n, r.number,
           CASE WHEN NOT r.rate THEN coalesce(
                    CASE WHEN r.opens_at IS NULL THEN r.number
                         ELSE headgate._opened(r.number, r.opens_at, r.step, p_now) END
                    - (SELECT coalesce(sum(h.units), 0)::bigint FROM headgate.holders h WHERE h.key = r.key), {unlimited})
                WHEN r.number IS NULL THEN {unlimited}
                WHEN r.number = 0 THEN 0
                WHEN r.exact THEN greatest(0, r.number - coalesce((
                    SELECT sum(s.units)::bigint FROM headgate.starts s
                    WHERE s.key = r.key AND s.at > p_now - r.period), 0))
                ELSE greatest(0, r.burst * r."interval" - greatest(0, coalesce((
                    SELECT m.full_at FROM headgate.meters m WHERE m.key = r.key), 0) - p_now)) / r."interval"
           END, r.lines_up, r.rate OR r.opens_at IS NOT NULL
    FROM headgate._in_force(p_keys) AS r
$$;

-- The earliest time from now at which a rate key has so many tokens; NULL if never at this pace.
-- Reads: meters, starts_key.
CREATE OR REPLACE FUNCTION headgate._when(p_key text, p_units bigint, p_now bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT CASE WHEN r.number IS NULL THEN p_now
                    WHEN p_units > r.most THEN NULL
                    WHEN NOT r.exact THEN greatest(p_now, coalesce((
                        SELECT m.full_at FROM headgate.meters m WHERE m.key = p_key),
                            0) - (r.burst - p_units) * r."interval")
                    ELSE coalesce((
                        SELECT min(s.at) + r.period FROM (
                            SELECT i.at, sum(i.units) OVER () AS spent, sum(i.units) OVER (ORDER BY i.at) AS gone
                            FROM headgate.starts i WHERE i.key = p_key AND i.at > p_now - r.period
                        ) AS s
                        WHERE s.spent + p_units > r.most AND s.gone >= s.spent + p_units - r.most), p_now)
               END
        FROM headgate._in_force(ARRAY[p_key]) AS r
    );
END $$;

-- The numbers that jobs bring for keys (NULL: none), in order: the newest is in force from its commit on. Written only
-- where it differs from what is visible, and only as a further row: no caller waits for another here. Jobs that come
-- again (p_again) are not the newest: they bring theirs only where the key's was forgotten meanwhile.
-- Reads: limits and brought by primary key, holders, live_waiting.
CREATE OR REPLACE FUNCTION headgate._bring(p_keys text[], p_numbers bigint[], p_now bigint, p_again boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    u        record;
    v_before bigint;
BEGIN
    FOR u IN SELECT k.key, k.number FROM unnest(p_keys, p_numbers) WITH ORDINALITY AS k (key, number, n)
             JOIN headgate.limits l ON l.name = headgate._name(k.key) AND l.per_key
             WHERE k.number IS NOT NULL ORDER BY k.n LOOP
        SELECT b.number INTO v_before FROM headgate.brought b WHERE b.key = u.key ORDER BY b.seq DESC LIMIT 1;
        CONTINUE WHEN v_before = u.number OR p_again AND v_before IS NOT NULL;
        INSERT INTO headgate.brought (key, seq, number, before, at)
        SELECT u.key, nextval('headgate.arrivals'), u.number, CASE WHEN headgate._in_use(u.key) THEN v_before END, p_now;
        INSERT INTO headgate.rechecks (key) VALUES (u.key);
    END LOOP;
END $$;

-- Jobs that become due bring their numbers again.   The caller holds them.
CREATE OR REPLACE FUNCTION headgate._bring_again(p_seqs bigint[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    j record;
BEGIN
    FOR j IN SELECT o.use_keys, o.use_numbers FROM unnest(p_seqs) WITH ORDINALITY AS u (seq, n)
             JOIN headgate.jobs o ON o.seq = u.seq WHERE o.use_numbers IS NOT NULL ORDER BY u.n LOOP
        PERFORM headgate._bring(j.use_keys, j.use_numbers, p_now, true);
    END LOOP;
END $$;

-- Whether a key is held or waited for. (A newcomer that no step has looked at does not wait.)
CREATE OR REPLACE FUNCTION headgate._in_use(p_key text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM headgate.holders h WHERE h.key = p_key)
        OR EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = p_key
                   AND NOT (j.unseen AND EXISTS (SELECT 1 FROM headgate.rechecks c WHERE c.key = p_key)));
END $$;

-- Numbers that were brought for keys before the latest.   Locks: their rows, SKIP LOCKED.
CREATE OR REPLACE FUNCTION headgate._forget_brought(p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM headgate.brought b WHERE b.ctid = ANY (ARRAY(
        SELECT o.ctid FROM unnest(p_keys) AS k (key)
        CROSS JOIN LATERAL (SELECT x.seq FROM headgate.brought x WHERE x.key = k.key ORDER BY x.seq DESC LIMIT 1) AS l
        JOIN headgate.brought o ON o.key = k.key AND o.seq < l.seq FOR UPDATE OF o SKIP LOCKED));
END $$;

-- Whether any task or queue has a cap at all: without one, a job's own keys are all it has.
-- Reads: limits_cap, overrides_cap.
CREATE OR REPLACE FUNCTION headgate._any_caps() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT EXISTS (SELECT 1 FROM headgate.limits WHERE cap AND kind <> 'rate') OR EXISTS (SELECT 1
            FROM headgate.overrides WHERE cap)
    );
END $$;

-- Whether the stored needs of a job can be read: an ident and a number each.
CREATE OR REPLACE FUNCTION headgate._are_uses(p_keys text[], p_units bigint[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    FOR i IN 1 .. coalesce(cardinality(p_keys), 0) LOOP
        IF (left(p_keys[i], 1) IN ('c', 'r') AND headgate._tenant_length(p_keys[i]) IS NOT NULL AND p_units[i] > 0)
            IS NOT TRUE THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN p_keys IS NULL OR cardinality(p_keys) > 0 AND cardinality(p_units) <= cardinality(p_keys);
END $$;

-- Whether a cap of a task or queue is in force. A limit that only bounds a backlog is none, unless operators say so.
-- Reads: limits by primary key, overrides_name.
CREATE OR REPLACE FUNCTION headgate._is_cap(p_name text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    l record;
BEGIN
    SELECT x.kind, x.cap INTO l FROM headgate.limits x WHERE x.name = p_name;
    RETURN CASE WHEN l.kind = 'rate' THEN false WHEN l.cap THEN true
                ELSE EXISTS (SELECT 1 FROM headgate.overrides o
                             WHERE o.name = p_name AND o.value IS NULL AND o.tenant IS NULL) END;
END $$;

-- A job's keys in the order of rule 6, with the caps that its task and queue have now.   p_caps   whether there are any
-- at all
CREATE OR REPLACE FUNCTION headgate._uses(p_task text, p_queue text, p_keys text[], p_units bigint[], p_caps boolean,
                                          OUT keys text[], OUT units bigint[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_caps text[];
BEGIN
    IF NOT p_caps THEN
        keys := p_keys;
        units := p_units;
        RETURN;
    END IF;
    SELECT array_agg('c0:' || c.name) INTO v_caps
    FROM unnest(ARRAY['queue:' || p_queue, 'task:' || p_task]) AS c (name)
    WHERE ('c0:' || c.name) <> ALL (coalesce(p_keys, '{}')) AND headgate._is_cap(c.name);
    IF v_caps IS NULL THEN
        keys := p_keys;
        units := p_units;
        RETURN;
    END IF;
    SELECT array_agg(u.key ORDER BY left(u.key, 1), headgate._text(u.key) COLLATE "C",
        headgate._tenant(u.key) COLLATE "C"),
           array_agg(coalesce(u.units, 1) ORDER BY left(u.key, 1), headgate._text(u.key) COLLATE "C",
               headgate._tenant(u.key) COLLATE "C")
    INTO keys, units
    FROM unnest(coalesce(p_keys, '{}') || v_caps, p_units) AS u (key, units);
END $$;

-- The same in FROM, where it melts into the caller's plan: without caps nothing is called at all.
CREATE OR REPLACE FUNCTION headgate._uses_of(p_task text, p_queue text, p_keys text[], p_units bigint[], p_caps boolean)
RETURNS TABLE (keys text[], units bigint[])
LANGUAGE sql STABLE AS $$
    SELECT p_keys, p_units WHERE NOT p_caps
    UNION ALL SELECT u.keys, u.units FROM headgate._uses(p_task, p_queue, p_keys, p_units, true) AS u WHERE p_caps
$$;

-- All keys that a decision about these jobs may touch: uses, caps, holders, the key that offered or parked them.
-- Reads: live by primary key, holders_job.
CREATE OR REPLACE FUNCTION headgate._keys_of(p_seqs bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_caps boolean := headgate._any_caps();
BEGIN
    RETURN (
        SELECT coalesce(array_agg(DISTINCT k.key), '{}') FROM (
            SELECT unnest(u.keys) FROM headgate.live j, headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units,
                v_caps) AS u
            WHERE j.seq = ANY (p_seqs)
            UNION ALL SELECT j.offered_by FROM headgate.live j WHERE j.seq = ANY (p_seqs)
            UNION ALL SELECT j.waiting_on FROM headgate.live j WHERE j.seq = ANY (p_seqs)
            UNION ALL SELECT h.key FROM headgate.holders h WHERE h.job = ANY (p_seqs)
        ) AS k (key) WHERE k.key IS NOT NULL
    );
END $$;

-- The keys that jobs will need when they come back, also those of ended ones.   Reads: jobs by primary key.
CREATE OR REPLACE FUNCTION headgate._needs_of(p_seqs bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT unnest(u.keys) FROM headgate.jobs j, headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units,
            headgate._any_caps()) AS u
        WHERE j.seq = ANY (p_seqs));
END $$;
