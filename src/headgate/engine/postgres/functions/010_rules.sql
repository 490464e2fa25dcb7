-- The numbers in force. Mirrors in_force.py and rates.py.

-- The rule of each key. `number` NULL does not limit.   p_keys   n is the position in p_keys
-- Reads: limits, overrides_name, computed.
CREATE OR REPLACE FUNCTION headgate._rules(p_keys text[])
RETURNS TABLE (key text, n integer, rate boolean, number bigint, period bigint, burst bigint, exact boolean,
               "interval" bigint, most bigint)
LANGUAGE sql STABLE AS $$
    SELECT r.key, r.n, r.rate, r.number, r.period, r.burst, r.exact,
           CASE WHEN r.number > 0 THEN (r.period + r.number - 1) / r.number ELSE r.period END,
           CASE WHEN coalesce(r.number, 0) = 0 THEN 0 WHEN r.exact THEN r.number ELSE r.burst END
    FROM (
        SELECT k.key, k.n::integer, k.rate, m.number, coalesce(l.period, 1) AS period,
               coalesce(l.algorithm = 'sliding_window', false) AS exact,
               coalesce(nullif(CASE WHEN l.algorithm = 'leaky' THEN 1 ELSE coalesce(l.burst, m.number)
                   END, 0), 1) AS burst
        FROM (
            SELECT t.key, t.n, left(t.key, 1) = 'r' AS rate, headgate._tenant(t.key) AS tenant,
                   split_part(t.text, '=', 1) AS name,
                   CASE WHEN strpos(t.text, '=') > 0 THEN substr(t.text, strpos(t.text, '=') + 1) END AS value
            FROM (SELECT u.key, u.n, headgate._text(u.key) AS text
                  FROM unnest(p_keys) WITH ORDINALITY AS u (key, n) OFFSET 0) AS t
            OFFSET 0
        ) AS k
        LEFT JOIN headgate.limits l ON l.name = k.name
        LEFT JOIN headgate.computed c ON c.key = k.key AND l.kind = 'floating'
        LEFT JOIN LATERAL (
            SELECT true AS there, o.max FROM headgate.overrides o
            WHERE o.name = k.name
              AND (o.value IS NULL OR o.value = k.value)
              AND (o.tenant IS NULL OR (o.tenant = k.tenant AND k.tenant <> ''))
            ORDER BY o.value IS NULL, o.tenant IS NULL LIMIT 1
        ) AS o ON true
        CROSS JOIN LATERAL (
            SELECT CASE WHEN k.rate AND l.kind IS DISTINCT FROM 'rate' THEN NULL
                        WHEN o.there THEN o.max
                        WHEN l.kind IS NULL OR (l.kind = 'rate') <> k.rate THEN NULL
                        ELSE coalesce(c.max, l.max) END AS number
        ) AS m
    ) AS r
$$;

-- Slots or whole tokens that are left of each key; {unlimited} where nothing limits.
-- Reads: holders by primary key, meters, starts_key.
CREATE OR REPLACE FUNCTION headgate._free(p_keys text[], p_now bigint)
RETURNS TABLE (key text, n integer, number bigint, free bigint)
LANGUAGE sql STABLE AS $$
    SELECT r.key, r.n, r.number,
           CASE WHEN r.number IS NULL THEN {unlimited}
                WHEN NOT r.rate THEN r.number - (SELECT count(*) FROM headgate.holders h WHERE h.key = r.key)
                WHEN r.number = 0 THEN 0
                WHEN r.exact THEN greatest(0, r.number - coalesce((
                    SELECT sum(s.units)::bigint FROM headgate.starts s
                    WHERE s.key = r.key AND s.at > p_now - r.period), 0))
                ELSE greatest(0, r.burst * r."interval" - greatest(0, coalesce((
                    SELECT m.full_at FROM headgate.meters m WHERE m.key = r.key), 0) - p_now)) / r."interval"
           END
    FROM headgate._rules(p_keys) AS r
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
        FROM headgate._rules(ARRAY[p_key]) AS r
    );
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
    LEFT JOIN headgate.limits l ON l.name = c.name
    WHERE ('c0:' || c.name) <> ALL (coalesce(p_keys, '{}'))
      AND (l.kind <> 'rate' OR (l.kind IS NULL AND EXISTS (
          SELECT 1 FROM headgate.overrides o WHERE o.name = c.name AND o.value IS NULL AND o.tenant IS NULL)));
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
