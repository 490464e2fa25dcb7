-- Rule 8: due jobs become ready if every key has room beyond what is promised already in their queue and is not waited
-- for there, else they park on the first without. A job that becomes ready counts as offered by its tightest key. A key
-- may have room and waiters for a moment: a slot came back in this very step, tokens came with time, or its waiters
-- have yet to be looked at (`rechecks`, `changes`). It is touched then.
-- p_seqs      scheduled jobs in the order of their arrival; the caller holds them and all their keys
-- p_touched   keys that were touched in this step before; returns these and its own
-- Reads: live by primary key, live_offered, live_waiting. Decides on arrays in memory, writes each kind of decision in
-- one statement.
CREATE OR REPLACE FUNCTION headgate._arrive(p_seqs bigint[], p_now bigint, p_touched text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_touched text[] := p_touched;
    v_caps    boolean := headgate._any_caps();
    v_keys    text[];          -- the distinct keys, and what each has left
    v_free    bigint[];
    v_lines   text[];          -- the distinct (key, queue), what is promised there, and whether jobs wait
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
    IF p_seqs IS NULL OR cardinality(p_seqs) = 0 THEN
        RETURN v_touched;
    END IF;
    WITH used AS (
        SELECT DISTINCT k.key, j.queue
        FROM headgate.live j, headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, v_caps) AS u,
            unnest(u.keys) AS k (key)
        WHERE j.seq = ANY (p_seqs)
    )
    SELECT array_agg(u.key), array_agg(headgate._pair(u.key, u.queue)),
           array_agg((SELECT coalesce(sum(o.units), 0)::bigint FROM headgate.live o
                      WHERE o.offered_by = u.key AND o.queue = u.queue)),
           array_agg(EXISTS (SELECT 1 FROM headgate.live w
                             WHERE w.state = 'waiting' AND w.waiting_on = u.key AND w.queue = u.queue))
    INTO v_keys, v_lines, v_offered, v_waited
    FROM used u;
    SELECT array_agg(f.free ORDER BY f.n) INTO v_free FROM headgate._free(v_keys, p_now) AS f;

    FOR r IN
        SELECT j.seq, u.keys, u.units, (
            SELECT array_agg(array_position(v_lines, headgate._pair(k.key, j.queue)) ORDER BY k.n)
            FROM unnest(u.keys) WITH ORDINALITY AS k (key, n)) AS at
        FROM unnest(p_seqs) WITH ORDINALITY AS s (seq, n) JOIN headgate.live j ON j.seq = s.seq,
             headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, v_caps) AS u
        ORDER BY s.n
    LOOP
        v_parked := NULL;
        v_tight := NULL;
        v_least := 9223372036854775807;
        IF NOT headgate._are_uses(r.keys, r.units) THEN  -- the claim knows what to do with it
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

    IF cardinality(park_seq) > 0 THEN
        UPDATE headgate.live j
        SET state = 'waiting', waiting_on = p.key, offered_by = NULL, units = p.units, refusals = 0, set_aside = false,
            unseen = false
        FROM unnest(park_seq, park_key, park_units) AS p (seq, key, units) WHERE j.seq = p.seq;
    END IF;
    IF cardinality(ready_seq) > 0 THEN
        UPDATE headgate.live j SET state = 'ready', waiting_on = NULL, offered_by = p.key, units = p.units
        FROM unnest(ready_seq, ready_key, ready_units) AS p (seq, key, units) WHERE j.seq = p.seq;
    END IF;
    RETURN v_touched;
END $$;
