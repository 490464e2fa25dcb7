-- The one walker (rule 10): start each job if all of its keys admit it now, else park it on the first that does not.
-- p_seqs      ready jobs, or waiters that are offered room just now, in the order of the claim; the caller holds them
--             and all their keys
-- p_keys      these keys
-- p_offers    for each job the key whose room is promised to it in this very step, if any; else it is as its row says
-- p_known     the tasks that the worker knows; jobs of others are set aside
-- Returns the started jobs in order and the touched keys.
-- Reads: live by primary key, holders. Decides on arrays in memory, writes each kind of decision in one statement.
CREATE OR REPLACE FUNCTION headgate._claim(p_seqs bigint[], p_keys text[], p_offers text[],
                                           p_known text[], p_now bigint,
                                           p_patience integer,
                                           OUT started bigint[], OUT touched text[], OUT unknown text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_unlimited CONSTANT bigint := 1152921504606846976;
    v_caps  boolean := headgate._any_caps();
    v_keys  text[];
    v_free  bigint[];
    v_spent bigint[];
    v_sliced boolean[];
    v_lines text[] := '{}';    -- (rate key, queue) where somebody was parked in this walk
    r       record;
    k       text;
    p       integer;
    refused integer;
    v_count integer;
    kept    text[];
    aside_seq bigint[] := '{}';
    park_seq bigint[] := '{}'; park_key text[] := '{}'; park_units bigint[] := '{}'; park_count integer[] := '{}';
    take_seq bigint[] := '{}'; take_key text[] := '{}';
    save_seq bigint[] := '{}'; save_key text[] := '{}';
    drop_seq bigint[] := '{}'; drop_key text[] := '{}';
BEGIN
    started := '{}';
    touched := '{}';
    unknown := '{}';
    SELECT array_agg(f.key ORDER BY f.n), array_agg(f.free ORDER BY f.n), array_agg(0 ORDER BY f.n),
           array_agg(f.key LIKE 'r%' OR f.number IS NULL OR f.number > 1000 ORDER BY f.n)
    INTO v_keys, v_free, v_spent, v_sliced
    FROM headgate._free(p_keys, p_now) AS f;

    FOR r IN
        SELECT j.seq, j.task, j.queue, j.task = ANY (p_known) AS known, o.offered_by, j.refusals, u.keys, u.units,
               (SELECT array_agg(array_position(v_keys, x.key) ORDER BY x.n)
                FROM unnest(u.keys) WITH ORDINALITY AS x (key, n)) AS at,
               (SELECT array_agg(x.key LIKE 'r%' AND x.key IS DISTINCT FROM o.offered_by AND EXISTS (
                    SELECT 1 FROM headgate.live w WHERE w.state = 'waiting' AND w.waiting_on = x.key
                        AND w.queue = j.queue) ORDER BY x.n)
                FROM unnest(u.keys) WITH ORDINALITY AS x (key, n)) AS lined,
               CASE WHEN j.refusals IS NULL THEN '{}'
                    ELSE ARRAY(SELECT h.key FROM headgate.holders h WHERE h.job = j.seq) END AS own
        FROM unnest(p_seqs) WITH ORDINALITY AS s (seq, n) JOIN headgate.live j ON j.seq = s.seq
             CROSS JOIN LATERAL (SELECT coalesce(p_offers[s.n], j.offered_by) AS offered_by) AS o,
             headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, v_caps) AS u
        ORDER BY s.n
    LOOP
        refused := 0;
        kept := '{}';
        IF NOT headgate._are_uses(r.keys, r.units) THEN  -- it is started for the worker to end it
            r.keys := '{}';
            touched := touched || array_remove(ARRAY[r.offered_by], NULL);
        END IF;
        IF NOT r.known THEN
            aside_seq := aside_seq || r.seq;
            IF r.task <> ALL (unknown) THEN
                unknown := unknown || r.task;
            END IF;
        ELSE
            FOR i IN 1 .. coalesce(cardinality(r.keys), 0) LOOP
                -- Others stand in line for tokens: one that needs many would starve if each passer-by took the next.
                IF r.lined[i]
                   OR (cardinality(v_lines) > 0 AND r.keys[i] IS DISTINCT FROM r.offered_by
                       AND (length(r.keys[i]) || ':' || r.keys[i] || r.queue) = ANY (v_lines))
                   OR (v_free[r.at[i]] < r.units[i]
                       AND NOT (v_free[r.at[i]] + 1 >= r.units[i] AND r.keys[i] = ANY (r.own))) THEN
                    refused := i;
                    EXIT;
                END IF;
            END LOOP;
            IF refused = 0 THEN
                started := started || r.seq;
                -- An offer that was used leaves room as it was: only slices and rates need another look.
                IF r.offered_by IS NOT NULL AND coalesce(v_sliced[array_position(v_keys, r.offered_by)], true) THEN
                    touched := touched || r.offered_by;
                END IF;
                FOR i IN 1 .. coalesce(cardinality(r.keys), 0) LOOP
                    p := r.at[i];
                    IF r.keys[i] LIKE 'r%' THEN
                        IF v_free[p] < c_unlimited THEN
                            v_free[p] := v_free[p] - r.units[i];
                            v_spent[p] := v_spent[p] + r.units[i];
                        END IF;
                    ELSE
                        IF v_free[p] < c_unlimited AND NOT r.keys[i] = ANY (r.own) THEN
                            v_free[p] := v_free[p] - 1;
                        END IF;
                        take_seq := take_seq || r.seq;
                        take_key := take_key || r.keys[i];
                    END IF;
                END LOOP;
                -- Reservations end that it needs no more: of caps that were withdrawn, so that nobody waits on them.
                FOREACH k IN ARRAY r.own LOOP
                    IF NOT k = ANY (coalesce(r.keys, '{}')) THEN
                        drop_seq := drop_seq || r.seq;
                        drop_key := drop_key || k;
                    END IF;
                END LOOP;
                CONTINUE;
            END IF;
            -- Rule 7: passed over often enough, it keeps the keys before the refusing one; never for a rate wait.
            v_count := coalesce(r.refusals, 0)
                + (r.refusals IS NOT NULL AND coalesce(r.offered_by <> r.keys[refused], false))::integer;
            IF v_count >= p_patience AND r.keys[refused] NOT LIKE 'r%' THEN
                kept := r.keys[1 : refused - 1];
            END IF;
            FOREACH k IN ARRAY kept LOOP
                IF NOT k = ANY (r.own) THEN
                    save_seq := save_seq || r.seq;
                    save_key := save_key || k;
                    p := array_position(v_keys, k);
                    IF v_free[p] < c_unlimited THEN
                        v_free[p] := v_free[p] - 1;
                    END IF;
                END IF;
            END LOOP;
            IF r.keys[refused] LIKE 'r%' THEN
                touched := touched || r.keys[refused];
                v_lines := v_lines || (length(r.keys[refused]) || ':' || r.keys[refused] || r.queue);
            END IF;
            park_seq := park_seq || r.seq;
            park_key := park_key || r.keys[refused];
            park_units := park_units || r.units[refused];
            park_count := park_count || v_count;
        END IF;
        IF r.offered_by IS NOT NULL THEN
            touched := touched || r.offered_by;
        END IF;
        FOREACH k IN ARRAY r.own LOOP
            IF NOT k = ANY (kept) THEN
                drop_seq := drop_seq || r.seq;
                drop_key := drop_key || k;
                touched := touched || k;
                p := array_position(v_keys, k);
                IF v_free[p] < c_unlimited THEN
                    v_free[p] := v_free[p] + 1;
                END IF;
            END IF;
        END LOOP;
    END LOOP;

    IF cardinality(drop_seq) > 0 THEN
        DELETE FROM headgate.holders h USING unnest(drop_seq, drop_key) AS d (job, key) WHERE h.job = d.job
            AND h.key = d.key;
    END IF;
    IF cardinality(take_seq) + cardinality(save_seq) > 0 THEN
        INSERT INTO headgate.holders (key, job, since, reserved)
        SELECT t.key, t.job, p_now, t.reserved FROM (
            SELECT a.key, a.job, false FROM unnest(take_key, take_seq) AS a (key, job)
            UNION ALL SELECT b.key, b.job, true FROM unnest(save_key, save_seq) AS b (key, job)
        ) AS t (key, job, reserved)
        ON CONFLICT (key, job) DO UPDATE SET since = excluded.since, reserved = excluded.reserved, expires_at = NULL;
    END IF;
    IF cardinality(park_seq) > 0 THEN
        UPDATE headgate.live j
        SET state = 'waiting', waiting_on = w.key, offered_by = NULL, units = w.units, refusals = w.refusals,
            set_aside = false, fresh = false, unseen = false
        FROM unnest(park_seq, park_key, park_units, park_count) AS w (seq, key, units, refusals) WHERE j.seq = w.seq;
        UPDATE headgate.holders h SET expires_at = NULL WHERE h.job = ANY (park_seq) AND h.expires_at IS NOT NULL;
    END IF;
    IF cardinality(aside_seq) > 0 THEN
        UPDATE headgate.live j SET set_aside = true, offered_by = NULL, units = 0, fresh = false
            WHERE j.seq = ANY (aside_seq);
    END IF;
    FOR i IN 1 .. coalesce(cardinality(v_keys), 0) LOOP
        IF v_spent[i] > 0 THEN
            PERFORM headgate._spend(v_keys[i], v_spent[i], p_now);
        END IF;
    END LOOP;
END $$;

-- Tokens of a rate key are spent now.   The caller holds the key's row.
CREATE OR REPLACE FUNCTION headgate._spend(p_key text, p_units bigint, p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r record;
BEGIN
    SELECT * INTO r FROM headgate._rules(ARRAY[p_key]);
    IF r.exact THEN
        DELETE FROM headgate.meters m WHERE m.key = p_key;
        DELETE FROM headgate.starts s WHERE s.key = p_key AND s.at <= p_now - r.period;
        INSERT INTO headgate.starts (key, at, units, until) VALUES (p_key, p_now, p_units, p_now + r.period);
    ELSE
        DELETE FROM headgate.starts s WHERE s.key = p_key;
        INSERT INTO headgate.meters AS m (key, full_at) VALUES (p_key, p_now + p_units * r."interval")
        ON CONFLICT (key) DO UPDATE SET full_at = greatest(m.full_at, p_now) + p_units * r."interval";
    END IF;
END $$;
