-- What is spent of rates, corrected afterwards, and closed. Mirrors rates.py. The caller holds the keys' rows.

-- Tokens of a rate key are spent now: p_units together, by the jobs of which p_own says so, in order. Of an estimated rate
-- each job remembers what it spent: {key: [units, at, mark]}.
CREATE OR REPLACE FUNCTION headgate._spend(p_key text, p_units bigint, p_now bigint, p_seqs bigint[], p_each bigint[],
                                           p_own boolean[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r      record;
    v_mark bigint := p_now;
BEGIN
    SELECT * INTO r FROM headgate._in_force(ARRAY[p_key]);
    IF r.exact THEN
        DELETE FROM headgate.meters m WHERE m.key = p_key;
        DELETE FROM headgate.starts s WHERE s.key = p_key AND s.at <= p_now - r.period;
        INSERT INTO headgate.starts (key, at, units, until)
        SELECT p_key, p_now, p_units, p_now + r.period WHERE NOT r.estimated
        UNION ALL
        SELECT p_key, p_now, u.units, p_now + r.period FROM unnest(p_each, p_own) AS u (units, own)
        WHERE r.estimated AND u.own;
    ELSE
        DELETE FROM headgate.starts s WHERE s.key = p_key;
        -- A spending that finds the bucket full begins a busy period.
        INSERT INTO headgate.meters AS m (key, full_at, since) VALUES (p_key, p_now + p_units * r."interval", p_now)
        ON CONFLICT (key) DO UPDATE
        SET full_at = greatest(m.full_at, p_now) + p_units * r."interval",
            since = CASE WHEN m.full_at <= p_now THEN p_now ELSE m.since END,
            refunded = CASE WHEN m.full_at <= p_now THEN 0 ELSE m.refunded END
        RETURNING m.full_at + m.refunded INTO v_mark;
    END IF;
    IF r.estimated THEN
        UPDATE headgate.live l
        SET spent = coalesce(l.spent, '{}') || jsonb_build_object(p_key, jsonb_build_array(s.units, p_now, s.mark))
        FROM (
            SELECT u.seq, u.units, CASE WHEN r.exact THEN p_now
                ELSE v_mark - r."interval" * (sum(u.units) OVER () - sum(u.units) OVER (ORDER BY u.n))::bigint END AS mark
            FROM unnest(p_seqs, p_each, p_own) WITH ORDINALITY AS u (seq, units, own, n) WHERE u.own
        ) AS s WHERE l.seq = s.seq;
    END IF;
END $$;

-- A running attempt says what it really spent of a limit; returns the keys to offer. What was not needed is given back
-- as far as time has not done so already; what was spent beyond it is a debt.
-- The caller holds the job and the keys of which it has spent.
CREATE OR REPLACE FUNCTION headgate._correct(p_seq bigint, p_name text, p_units bigint, p_now bigint) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_touched text[] := '{}';
    s         record;
    r         record;
    v_less    bigint;
    v_entry   tid;
BEGIN
    FOR s IN SELECT e.key, (e.value ->> 0)::bigint AS units, (e.value ->> 1)::bigint AS at, (e.value ->> 2)::bigint AS mark
             FROM headgate.live l, jsonb_each(l.spent) AS e WHERE l.seq = p_seq AND headgate._name(e.key) = p_name LOOP
        SELECT * INTO r FROM headgate._in_force(ARRAY[s.key]);
        CONTINUE WHEN NOT r.rate OR coalesce(r.number, 0) = 0;
        v_less := (s.units - p_units) * r."interval";
        IF r.exact THEN
            SELECT e.ctid INTO v_entry FROM headgate.starts e WHERE e.key = s.key AND e.at = s.at AND e.units = s.units LIMIT 1;
            IF FOUND THEN
                DELETE FROM headgate.starts e WHERE e.ctid = v_entry;
                INSERT INTO headgate.starts (key, at, units, until) SELECT s.key, s.at, p_units, s.at + r.period
                WHERE p_units > 0;
            ELSIF s.at > p_now - r.period AND p_units > s.units THEN  -- closed since: a debt counts nevertheless
                INSERT INTO headgate.starts (key, at, units, until) VALUES (s.key, s.at, p_units - s.units, s.at + r.period);
            END IF;
        ELSIF v_less < 0 THEN
            INSERT INTO headgate.meters AS m (key, full_at) VALUES (s.key, p_now - v_less)
            ON CONFLICT (key) DO UPDATE SET full_at = greatest(m.full_at, p_now) - v_less;
        ELSE
            UPDATE headgate.meters m SET full_at = m.full_at - b.back, refunded = m.refunded + b.back
            FROM (SELECT greatest(0, least(v_less, s.mark - x.refunded - p_now, x.full_at - p_now)) AS back
                  FROM headgate.meters x WHERE x.key = s.key AND x.since <= s.at) AS b
            WHERE m.key = s.key AND b.back > 0;
        END IF;
        UPDATE headgate.live l SET spent = jsonb_set(l.spent, ARRAY[s.key, '0'], to_jsonb(p_units)) WHERE l.seq = p_seq;
        v_touched := v_touched || s.key;
    END LOOP;
    RETURN v_touched;
END $$;

-- A rate key has no tokens before this time; from then on it fills as if everything had been spent.
CREATE OR REPLACE FUNCTION headgate._close(p_key text, p_until bigint, p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r       record;
    v_empty bigint;
    v_parts bigint;
BEGIN
    SELECT * INTO r FROM headgate._in_force(ARRAY[p_key]);
    IF r.exact THEN
        v_parts := least({closing_steps}, coalesce(r.number, 0));
        IF v_parts = 0 THEN
            RETURN;
        END IF;
        -- Of what was spent, and of what a window has spent that opens in parts, at every time the larger. A start leaves a
        -- microsecond later, so that a correction does not take what is left of it for the start itself.
        WITH gone AS (
            DELETE FROM headgate.starts s WHERE s.key = p_key RETURNING s.at, s.units
        ), entries AS (
            SELECT g.at, 0 AS side, g.units FROM gone g WHERE g.at > p_now - r.period
            UNION ALL
            SELECT p_until - r.period + r.period * n / v_parts, 1, r.most * (n + 1) / v_parts - r.most * n / v_parts
            FROM generate_series(0, v_parts - 1) AS n
        ), behind AS (
            SELECT e.at, e.side, e.units,
                   coalesce(sum(e.units) FILTER (WHERE e.side = 0) OVER later, 0) AS starts,
                   coalesce(sum(e.units) FILTER (WHERE e.side = 1) OVER later, 0) AS opening
            FROM entries e
            WINDOW later AS (ORDER BY e.at DESC, e.side DESC, e.units DESC ROWS UNBOUNDED PRECEDING)
        ), leaves AS (
            SELECT b.at + 1 - b.side AS at,
                   greatest(b.starts, b.opening)
                   - greatest(b.starts - (1 - b.side) * b.units, b.opening - b.side * b.units) AS units
            FROM behind b
        )
        INSERT INTO headgate.starts (key, at, units, until)
        SELECT p_key, l.at, l.units, l.at + r.period FROM leaves l WHERE l.units > 0;
    ELSE
        v_empty := p_until + (r.burst - 1) * r."interval";
        INSERT INTO headgate.meters AS m (key, full_at, since) VALUES (p_key, v_empty, p_now + 1)
        ON CONFLICT (key) DO UPDATE SET full_at = v_empty, since = p_now + 1, refunded = 0 WHERE m.full_at < v_empty;
    END IF;
END $$;

-- A service said that an attempt should come later: close the keys that it means, for everybody; returns them. Those of
-- limit p_name; without a name its rates, else its slots that are no caps.
-- The caller holds the job and all of its keys.
CREATE OR REPLACE FUNCTION headgate._throttle(p_seq bigint, p_name text, p_delay bigint, p_now bigint) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
    r      record;
    v_step bigint;
BEGIN
    SELECT u.keys INTO v_keys FROM headgate.live j,
        headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, headgate._any_caps()) AS u WHERE j.seq = p_seq;
    IF p_name IS NOT NULL THEN
        v_keys := ARRAY(SELECT k FROM unnest(v_keys) AS k WHERE headgate._name(k) = p_name);
    ELSE
        v_keys := ARRAY(SELECT k FROM unnest(v_keys) AS k WHERE k NOT LIKE 'c0:task:%' AND k NOT LIKE 'c0:queue:%');
        IF EXISTS (SELECT 1 FROM unnest(v_keys) AS k WHERE k LIKE 'r%') THEN
            v_keys := ARRAY(SELECT k FROM unnest(v_keys) AS k WHERE k LIKE 'r%');
        END IF;
    END IF;
    FOR r IN SELECT f.* FROM headgate._in_force(v_keys) AS f LOOP
        IF NOT r.rate THEN
            v_step := greatest(p_delay / greatest(coalesce(r.number, {gate_steps}), 1), {shortest_step});
            INSERT INTO headgate.gates AS g (key, opens_at, step, wide_at)
            VALUES (r.key, p_now + p_delay, v_step, headgate._wide_at(r.number, p_now + p_delay, v_step))
            ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at, step = excluded.step, wide_at = excluded.wide_at
            WHERE g.opens_at < excluded.opens_at;
        ELSIF r.number > 0 THEN
            PERFORM headgate._close(r.key, p_now + p_delay, p_now);
        END IF;
    END LOOP;
    RETURN v_keys;
END $$;
