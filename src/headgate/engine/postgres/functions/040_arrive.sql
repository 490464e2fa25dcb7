-- Rule 8: due jobs become ready if every key has room beyond what is promised already in their queue and is not waited
-- for there, else they park on the first without. A key may have room and waiters for a moment: a slot came back in this
-- very step, tokens came with time, or its waiters have yet to be looked at (`rechecks`, `changes`). It is offered then.
-- p_seqs      the jobs in the order of their arrival; the caller holds them and all their keys
-- p_touched   keys that gained room in this very step
-- p_write     whether those who have room become ready; else the caller claims them at once
-- `seqs` are those who have room, `keys` those that promised it; `touched` keys, those of p_touched included.
-- Reads: live by primary key, live_offered, live_waiting.
CREATE OR REPLACE FUNCTION headgate._arrivals(p_seqs bigint[], p_now bigint, p_touched text[], p_write boolean,
                                              OUT seqs bigint[], OUT keys text[], OUT touched text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    v_touched text[] := coalesce(p_touched, '{}');
    v_caps    boolean := headgate._any_caps();
    v_keys    text[];          -- the distinct keys, and what each has left
    v_free    bigint[];
    v_lines   text[];          -- the distinct (key, queue), what is promised there, and whether somebody waits
    v_offered bigint[];
    v_waited  boolean[];
    r         record;
    v_parked  integer;
    v_tight   integer;
    v_room    bigint;
    v_least   bigint;
    park_seq bigint[] := '{}'; park_key text[] := '{}'; park_units bigint[] := '{}';
    ready_seq bigint[] := '{}'; ready_key text[] := '{}'; ready_units bigint[] := '{}';
BEGIN
    IF NOT v_caps AND NOT EXISTS (
        SELECT 1 FROM headgate.live j WHERE j.seq = ANY (p_seqs)
        AND (cardinality(j.use_keys) = 1 AND j.use_units[1] = 1 AND j.use_keys[1] LIKE 'c%'
             AND headgate._are_uses(j.use_keys, j.use_units)) IS NOT TRUE) THEN
        -- One slot of one key each: as many of each line as it has room for, in one statement.
        WITH lines AS (
            SELECT j.use_keys[1] AS key, j.queue, array_agg(j.seq ORDER BY s.n) AS seqs
            FROM unnest(p_seqs) WITH ORDINALITY AS s (seq, n) JOIN headgate.live j ON j.seq = s.seq GROUP BY 1, 2
        ), rooms AS MATERIALIZED (
            SELECT l.key, l.seqs, w.waited, CASE WHEN w.waited THEN 0 ELSE a.room END AS room,
                   w.waited AND a.room > 0 AS late
            FROM lines l CROSS JOIN LATERAL headgate._free(ARRAY[l.key], p_now) AS f
            CROSS JOIN LATERAL (
                SELECT f.free - coalesce(sum(o.units), 0)::bigint AS room FROM headgate.live o
                WHERE o.offered_by = l.key AND o.queue = l.queue) AS a
            CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM headgate.live w
                WHERE w.state = 'waiting' AND w.waiting_on = l.key AND w.queue = l.queue) AS waited) AS w
        )
        SELECT array_agg(x.seq) FILTER (WHERE x.n > m.room), array_agg(m.key) FILTER (WHERE x.n > m.room),
               array_agg(1) FILTER (WHERE x.n > m.room),
               array_agg(x.seq) FILTER (WHERE x.n <= m.room), array_agg(m.key) FILTER (WHERE x.n <= m.room),
               array_agg(1) FILTER (WHERE x.n <= m.room),
               v_touched || coalesce(array_agg(DISTINCT m.key) FILTER (WHERE m.late), '{}')
        INTO park_seq, park_key, park_units, ready_seq, ready_key, ready_units, v_touched
        FROM rooms m CROSS JOIN LATERAL unnest(m.seqs) WITH ORDINALITY AS x (seq, n);
    ELSE
        WITH used AS (
            SELECT DISTINCT k.key, j.queue
            FROM headgate.live j, headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, v_caps) AS u,
                unnest(u.keys) AS k (key)
            WHERE j.seq = ANY (p_seqs)
        )
        SELECT array_agg(u.key), array_agg(length(u.key) || ':' || u.key || u.queue),
               array_agg((SELECT coalesce(sum(o.units), 0)::bigint FROM headgate.live o
                          WHERE o.offered_by = u.key AND o.queue = u.queue)),
               array_agg(EXISTS (SELECT 1 FROM headgate.live w
                                 WHERE w.state = 'waiting' AND w.waiting_on = u.key AND w.queue = u.queue))
        INTO v_keys, v_lines, v_offered, v_waited
        FROM used u;
        SELECT array_agg(f.free ORDER BY f.n) INTO v_free FROM headgate._free(v_keys, p_now) AS f;

        FOR r IN
            SELECT j.seq, u.keys, u.units, (
                SELECT array_agg(array_position(v_lines, length(k.key) || ':' || k.key || j.queue) ORDER BY k.n)
                FROM unnest(u.keys) WITH ORDINALITY AS k (key, n)) AS at
            FROM unnest(p_seqs) WITH ORDINALITY AS s (seq, n) JOIN headgate.live j ON j.seq = s.seq,
                 headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, v_caps) AS u
            ORDER BY s.n
        LOOP
            v_parked := NULL;
            v_tight := NULL;
            v_least := 9223372036854775807;
            IF NOT headgate._are_uses(r.keys, r.units) THEN  -- the walker knows what to do with it
                r.keys := '{}';
            END IF;
            FOR i IN 1 .. coalesce(cardinality(r.keys), 0) LOOP
                v_room := v_free[r.at[i]] - v_offered[r.at[i]];
                IF v_room < r.units[i] OR v_waited[r.at[i]] THEN
                    v_parked := i;
                    EXIT;
                END IF;
                IF v_room < v_least THEN
                    v_tight := i;
                    v_least := v_room;
                END IF;
            END LOOP;
            IF v_parked IS NOT NULL THEN
                park_seq := park_seq || r.seq;
                park_key := park_key || r.keys[v_parked];
                park_units := park_units || r.units[v_parked];
                v_waited[r.at[v_parked]] := true;
                IF r.keys[v_parked] LIKE 'r%' OR v_room >= r.units[v_parked] THEN
                    v_touched := v_touched || r.keys[v_parked];
                END IF;
            ELSE
                ready_seq := ready_seq || r.seq;
                ready_key := array_append(ready_key, CASE WHEN v_tight IS NOT NULL THEN r.keys[v_tight] END);
                ready_units := ready_units || CASE WHEN v_tight IS NOT NULL THEN r.units[v_tight] ELSE 0 END;
                IF v_tight IS NOT NULL THEN
                    v_offered[r.at[v_tight]] := v_offered[r.at[v_tight]] + r.units[v_tight];
                END IF;
            END IF;
        END LOOP;
    END IF;

    IF cardinality(park_seq) > 0 THEN
        UPDATE headgate.live j
        SET state = 'waiting', waiting_on = p.key, offered_by = NULL, units = p.units, refusals = 0, set_aside = false,
            fresh = false, unseen = false
        FROM unnest(park_seq, park_key, park_units) AS p (seq, key, units) WHERE j.seq = p.seq;
    END IF;
    IF p_write AND cardinality(ready_seq) > 0 THEN
        UPDATE headgate.live j
        SET state = 'ready', waiting_on = NULL, offered_by = p.key, units = p.units, fresh = false
        FROM unnest(ready_seq, ready_key, ready_units) AS p (seq, key, units) WHERE j.seq = p.seq;
    END IF;
    seqs := coalesce(ready_seq, '{}');
    keys := ready_key;
    touched := v_touched;
END $$;

-- The same for jobs that become ready; returns the touched keys.
CREATE OR REPLACE FUNCTION headgate._arrive(p_seqs bigint[], p_now bigint, p_touched text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT a.touched FROM headgate._arrivals(p_seqs, p_now, p_touched, true) AS a);
END $$;

-- Newcomers that have arrived and are not claimed in this step keep the room that was found for them: others may stand
-- in line behind them already.   p_keys   who promised it to each, NULL for the others among p_seqs
-- The caller holds the jobs and the keys.
CREATE OR REPLACE FUNCTION headgate._promise(p_seqs bigint[], p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE headgate.live j
    SET offered_by = p.key, fresh = false, units = coalesce(j.use_units[array_position(j.use_keys, p.key)], 1)
    FROM unnest(p_seqs, p_keys) AS p (seq, key) WHERE j.seq = p.seq AND p.key IS NOT NULL;
END $$;

-- Newcomers among a worker's candidates arrive. `cands` are the others and those who have room, in the order of
-- p_cands, `offers` the keys that promised it to newcomers: whom the caller does not claim, it must tell (_promise).
CREATE OR REPLACE FUNCTION headgate._meet(p_cands bigint[], p_known text[], p_now bigint,
                                          OUT cands bigint[], OUT offers text[], OUT touched text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_fresh bigint[] := ARRAY(SELECT j.seq FROM headgate.live j
                              WHERE j.seq = ANY (p_cands) AND j.fresh AND j.task = ANY (p_known) ORDER BY j.seq);
    v_ready bigint[];
    v_keys  text[];
BEGIN
    cands := p_cands;
    touched := '{}';
    IF cardinality(v_fresh) > 0 THEN
        SELECT a.seqs, a.keys, a.touched INTO v_ready, v_keys, touched
        FROM headgate._arrivals(v_fresh, p_now, '{}', false) AS a;
        SELECT coalesce(array_agg(c.seq ORDER BY c.n), '{}'), array_agg(v_keys[array_position(v_ready, c.seq)]
            ORDER BY c.n)
        INTO cands, offers
        FROM unnest(p_cands) WITH ORDINALITY AS c (seq, n) WHERE c.seq <> ALL (v_fresh) OR c.seq = ANY (v_ready);
    END IF;
END $$;
