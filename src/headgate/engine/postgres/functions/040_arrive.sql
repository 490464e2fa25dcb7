-- A job becomes due (rules 8, 9, 17, 19): it is tagged, if it has a share, and walks in; one by one where a limit may turn
-- jobs away, since each decision counts for the next.
-- p_seqs       scheduled jobs in the order of their arrival; the caller holds them and all their keys
-- p_touched    keys that were touched in this step before; returns these and others, all of which are held
-- p_returning  they come back uncounted: they keep their tags, and are never turned away
CREATE OR REPLACE FUNCTION headgate._arrive(p_seqs bigint[], p_now bigint, p_keep bigint[], p_touched text[],
                                            p_returning boolean) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_touched text[] := p_touched;
    v_shared  boolean;
    v_bring   boolean;
BEGIN
    IF p_seqs IS NULL OR cardinality(p_seqs) = 0 THEN
        RETURN v_touched;
    END IF;
    SELECT bool_or(j.share IS NOT NULL), bool_or(j.use_numbers IS NOT NULL) INTO v_shared, v_bring
    FROM headgate.jobs j WHERE j.seq = ANY (p_seqs);
    IF v_bring THEN
        PERFORM headgate._bring_again(p_seqs, p_now);
    END IF;
    IF p_returning THEN
        RETURN headgate._walk_in(p_seqs, p_now, p_keep, v_touched, false);
    END IF;
    IF headgate._any_policy() AND headgate._may_be_turned_away(p_seqs) THEN
        FOR i IN 1 .. cardinality(p_seqs) LOOP
            IF v_shared THEN
                PERFORM headgate._tag(p_seqs[i : i]);
            END IF;
            v_touched := headgate._walk_in(p_seqs[i : i], p_now, p_keep, v_touched, true);
        END LOOP;
        RETURN v_touched;
    END IF;
    IF v_shared THEN
        PERFORM headgate._tag(p_seqs);
    END IF;
    RETURN headgate._walk_in(p_seqs, p_now, p_keep, v_touched, false);
END $$;

-- Rule 8: due jobs become ready if every key has room beyond what is promised already in their queue and is not waited
-- for there, else they park on the first without. A job that becomes ready counts as offered by its tightest key. A key
-- may have room and waiters for a moment: a slot came back in this very step, tokens came with time, or its waiters
-- have yet to be looked at (`rechecks`, `changes`). It is touched then.
-- p_policies  a single job, which a limit may turn away
-- Reads: live by primary key, live_offered, live_waiting. Decides on arrays in memory, writes each kind of decision in
-- one statement.
CREATE OR REPLACE FUNCTION headgate._walk_in(p_seqs bigint[], p_now bigint, p_keep bigint[], p_touched text[],
                                             p_policies boolean) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_touched text[] := p_touched;
    v_caps    boolean := headgate._any_caps();
    v_full    record;
    v_keys    text[];          -- the distinct keys, what each has left, and whether jobs may wait although there is some
    v_free    bigint[];
    v_up      boolean[];
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
    IF p_policies THEN
        v_full := headgate._may_enter(p_seqs[1], p_now, p_keep);
        v_touched := v_touched || v_full.touched;
        IF NOT v_full.stays THEN
            RETURN v_touched;
        END IF;
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
    SELECT array_agg(f.free ORDER BY f.n), array_agg(f.lines_up ORDER BY f.n) INTO v_free, v_up
    FROM headgate._free(v_keys, p_now) AS f;

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
        IF v_parked IS NOT NULL AND p_policies THEN
            v_full := headgate._may_wait(r.seq, r.keys[v_parked], p_now, p_keep);
            v_touched := v_touched || v_full.touched;
            IF v_full.stays IS NOT TRUE THEN  -- it left, or is to come again
                UPDATE headgate.live j SET newcomer = true WHERE j.seq = r.seq AND v_full.stays IS NULL;
                RETURN v_touched;
            END IF;
        END IF;
        IF v_parked IS NOT NULL THEN
            park_seq := park_seq || r.seq;
            park_key := park_key || r.keys[v_parked];
            park_units := park_units || r.units[v_parked];
            v_waited[r.at[v_parked]] := true;
            IF v_up[r.at[v_parked]] OR v_room >= r.units[v_parked] THEN
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
            unseen = false, newcomer = false
        FROM unnest(park_seq, park_key, park_units) AS p (seq, key, units) WHERE j.seq = p.seq;
    END IF;
    IF cardinality(ready_seq) > 0 THEN
        UPDATE headgate.live j SET state = 'ready', waiting_on = NULL, offered_by = p.key, units = p.units, newcomer = false
        FROM unnest(ready_seq, ready_key, ready_units) AS p (seq, key, units) WHERE j.seq = p.seq;
    END IF;
    RETURN v_touched;
END $$;
