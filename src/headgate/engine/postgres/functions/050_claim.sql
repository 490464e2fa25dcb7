-- The one walker (rule 10): start each job if all of its keys admit it now, else park it on the first that does not.
-- p_seqs      ready jobs, or waiters that are offered room just now, in the order of the claim; the caller holds them
--             and all their keys
-- p_offers    for each job the key whose room is promised to it in this very step, if any; else it is as its row says
-- p_limited   false: none of them has keys, caps, an offer or a refusal behind it, and the worker knows all their tasks
-- p_alone     each needs one slot of its key of p_offers and nothing else, holds nothing, and is of a known task
-- p_caps      whether there are caps at all
-- p_known     the tasks that the worker knows; jobs of others are set aside
-- p_ttl       how long an offered job may keep its reservations unclaimed
-- p_keep      how long ended jobs are kept, by state: one that should have been started by now ends
-- p_threads   how many of the started jobs may be of p_threaded; NULL: any number. Further ones are set aside, too, with
--             what they were offered
-- Returns the started jobs in order, the touched keys, the tasks that were set aside as unknown, whether any job was set
-- aside, the keys that refused jobs, one for each, and whether any ended since it is too late for it; the caller lets the
-- jobs run.
-- Reads: live by primary key, holders. Decides on arrays in memory, writes each kind of decision in one statement.
CREATE OR REPLACE FUNCTION headgate._claim(p_seqs bigint[], p_offers text[], p_limited boolean, p_alone boolean,
                                           p_caps boolean, p_known text[], p_threaded text[], p_threads integer,
                                           p_now bigint, p_patience integer, p_ttl bigint, p_keep bigint[],
                                           OUT started bigint[], OUT touched text[], OUT unknown text[],
                                           OUT aside boolean, OUT refused_by text[], OUT expired boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_unlimited CONSTANT bigint := {unlimited};
    v_admits boolean;
    v_keys  text[];
    v_free  bigint[];
    v_spent bigint[];
    v_sliced boolean[];
    v_up    boolean[];         -- jobs may wait for it although some of it is free
    v_timed boolean[];
    v_lines text[] := '{}';    -- (such a key, queue) where a job was parked in this walk
    r       record;
    k       text;
    p       integer;
    refused integer;
    v_count integer;
    kept    text[];
    v_threads integer := p_threads;
    v_own   bigint;            -- how many units of a key the job holds already
    late_seq bigint[] := '{}';
    spent_seq bigint[] := '{}'; spent_at integer[] := '{}'; spent_units bigint[] := '{}';
    aside_seq bigint[] := '{}';
    lack_seq bigint[] := '{}';
    keep_seq bigint[] := '{}'; keep_key text[] := '{}';
    park_seq bigint[] := '{}'; park_key text[] := '{}'; park_units bigint[] := '{}'; park_count integer[] := '{}';
    take_seq bigint[] := '{}'; take_key text[] := '{}'; take_units bigint[] := '{}';
    save_seq bigint[] := '{}'; save_key text[] := '{}'; save_units bigint[] := '{}';
    drop_seq bigint[] := '{}'; drop_key text[] := '{}';
BEGIN
    started := '{}';
    touched := '{}';
    unknown := '{}';
    aside := false;
    IF NOT p_limited OR p_seqs = '{}' THEN
        started := p_seqs;
        RETURN;
    END IF;
    -- One slot of one key each at most: where every key has room for all of them, the walk would admit each.
    IF p_alone THEN
        v_admits := true;  -- it was promised in this very step
        take_seq := p_seqs;
        take_key := p_offers;
    ELSIF NOT p_caps AND p_threads IS NULL THEN
        SELECT bool_and(c.plain), array_agg(c.seq) FILTER (WHERE c.key IS NOT NULL),
               array_agg(c.key) FILTER (WHERE c.key IS NOT NULL)
        INTO v_admits, take_seq, take_key
        FROM (
            SELECT j.seq, j.use_keys[1] AS key,
                   j.task = ANY (p_known) AND (j.start_by <= p_now) IS NOT TRUE
                   AND (o.offer IS NULL OR o.offer IS NOT DISTINCT FROM j.use_keys[1])
                   AND (j.use_keys IS NULL OR cardinality(j.use_keys) = 1 AND j.use_units = ARRAY[1::bigint]
                        AND j.use_keys[1] LIKE 'c%' AND headgate._tenant_length(j.use_keys[1]) IS NOT NULL)
                   AND (coalesce(j.refusals, 0) < least(p_patience, 1)
                        OR NOT EXISTS (SELECT 1 FROM headgate.holders h WHERE h.job = j.seq)) AS plain
            FROM unnest(p_seqs, p_offers) AS s (seq, offer) JOIN headgate.live j ON j.seq = s.seq
            CROSS JOIN LATERAL (SELECT coalesce(s.offer, j.offered_by) AS offer) AS o
        ) AS c;
        v_admits := v_admits AND (
            SELECT coalesce(bool_and(coalesce(f.number <= {offer_most}, false) AND NOT f.lines_up AND k.jobs <= f.free), true)
            FROM (SELECT u.key, count(*) AS jobs FROM unnest(take_key) AS u (key) GROUP BY u.key) AS k
            CROSS JOIN LATERAL headgate._free(ARRAY[k.key], p_now) AS f);
    END IF;
    IF v_admits THEN
        started := p_seqs;
        INSERT INTO headgate.holders (key, job, since, reserved)
        SELECT t.key, t.job, p_now, false FROM unnest(take_key, take_seq) AS t (key, job);
        RETURN;
    END IF;
    take_seq := '{}';
    take_key := '{}';
    v_keys := headgate._keys_of(p_seqs);
    SELECT array_agg(f.key ORDER BY f.n), array_agg(f.free ORDER BY f.n), array_agg(0 ORDER BY f.n),
           array_agg(f.key LIKE 'r%' OR f.number IS NULL OR f.number > {offer_most} ORDER BY f.n),
           array_agg(f.lines_up ORDER BY f.n), array_agg(f.timed ORDER BY f.n)
    INTO v_keys, v_free, v_spent, v_sliced, v_up, v_timed
    FROM headgate._free(v_keys, p_now) AS f;

    FOR r IN
        SELECT j.seq, j.task, j.queue, j.task = ANY (p_known) AS known, o.offered_by, j.refusals, u.keys, u.units,
               (SELECT array_agg(array_position(v_keys, x.key) ORDER BY x.n)
                FROM unnest(u.keys) WITH ORDINALITY AS x (key, n)) AS at,
               (SELECT array_agg(v_up[array_position(v_keys, x.key)] AND x.key IS DISTINCT FROM o.offered_by AND EXISTS (
                    SELECT 1 FROM headgate.live w WHERE w.state = 'waiting' AND w.waiting_on = x.key
                        AND w.queue = j.queue AND w.seq <> ALL (p_seqs)) ORDER BY x.n)
                FROM unnest(u.keys) WITH ORDINALITY AS x (key, n)) AS lined,
               CASE WHEN j.refusals IS NULL THEN '{}'
                    ELSE ARRAY(SELECT h.key FROM headgate.holders h WHERE h.job = j.seq ORDER BY h.key) END AS own,
               CASE WHEN j.refusals IS NULL THEN '{}'
                    ELSE ARRAY(SELECT h.units FROM headgate.holders h WHERE h.job = j.seq ORDER BY h.key) END AS own_units,
               (j.start_by <= p_now) IS TRUE AS late,
               p_threads IS NOT NULL AND j.task = ANY (p_threaded) AS threaded, j.set_aside, p_offers[s.n] AS promised
        FROM unnest(p_seqs) WITH ORDINALITY AS s (seq, n) JOIN headgate.live j ON j.seq = s.seq
             CROSS JOIN LATERAL (SELECT coalesce(p_offers[s.n], j.offered_by) AS offered_by) AS o,
             headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, p_caps) AS u
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
        ELSIF r.threaded AND v_threads <= 0 THEN
            IF NOT r.set_aside THEN
                lack_seq := lack_seq || r.seq;
            END IF;
            IF r.promised IS NOT NULL THEN
                keep_seq := keep_seq || r.seq;
                keep_key := keep_key || r.promised;
            END IF;
            CONTINUE;
        ELSIF r.late THEN
            late_seq := late_seq || r.seq;
        ELSE
            FOR i IN 1 .. coalesce(cardinality(r.keys), 0) LOOP
                v_own := CASE WHEN r.own <> '{}' THEN coalesce(r.own_units[array_position(r.own, r.keys[i])], 0) ELSE 0 END;
                -- Others stand in line for more: one that needs much would starve if each passer-by took what comes.
                IF v_free[r.at[i]] + v_own < r.units[i]
                   OR v_own = 0 AND (r.lined[i]
                       OR (cardinality(v_lines) > 0 AND r.keys[i] IS DISTINCT FROM r.offered_by
                           AND headgate._pair(r.keys[i], r.queue) = ANY (v_lines))) THEN
                    refused := i;
                    EXIT;
                END IF;
            END LOOP;
            IF refused = 0 THEN
                started := started || r.seq;
                v_threads := v_threads - r.threaded::integer;
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
                            spent_seq := spent_seq || r.seq;
                            spent_at := spent_at || p;
                            spent_units := spent_units || r.units[i];
                        END IF;
                    ELSE
                        v_free[p] := v_free[p] - r.units[i] + CASE WHEN r.own <> '{}'
                            THEN coalesce(r.own_units[array_position(r.own, r.keys[i])], 0) ELSE 0 END;
                        take_seq := take_seq || r.seq;
                        take_key := take_key || r.keys[i];
                        take_units := take_units || r.units[i];
                    END IF;
                END LOOP;
                -- Reservations end that it needs no more: of caps that were withdrawn, which nothing offers any more.
                FOREACH k IN ARRAY r.own LOOP
                    IF NOT k = ANY (coalesce(r.keys, '{}')) THEN
                        drop_seq := drop_seq || r.seq;
                        drop_key := drop_key || k;
                    END IF;
                END LOOP;
                CONTINUE;
            END IF;
            -- Rule 7: passed over often enough, it keeps the keys before the refusing one; never for a wait for time.
            v_count := coalesce(r.refusals, 0)
                + (r.refusals IS NOT NULL AND coalesce(r.offered_by <> r.keys[refused], false))::integer;
            IF v_count >= p_patience AND NOT v_timed[r.at[refused]] THEN
                kept := r.keys[1 : refused - 1];
            END IF;
            FOR i IN 1 .. coalesce(cardinality(kept), 0) LOOP
                IF NOT kept[i] = ANY (r.own) THEN
                    save_seq := save_seq || r.seq;
                    save_key := save_key || kept[i];
                    save_units := save_units || r.units[i];
                    v_free[r.at[i]] := v_free[r.at[i]] - r.units[i];
                END IF;
            END LOOP;
            IF v_up[r.at[refused]] THEN
                touched := touched || r.keys[refused];
                v_lines := v_lines || headgate._pair(r.keys[refused], r.queue);
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
                v_free[p] := v_free[p] + r.own_units[array_position(r.own, k)];
            END IF;
        END LOOP;
    END LOOP;

    IF cardinality(drop_seq) > 0 THEN
        DELETE FROM headgate.holders h USING unnest(drop_seq, drop_key) AS d (job, key) WHERE h.job = d.job
            AND h.key = d.key;
    END IF;
    IF cardinality(take_seq) + cardinality(save_seq) > 0 THEN
        INSERT INTO headgate.holders (key, job, since, reserved, units)
        SELECT t.key, t.job, p_now, t.reserved, t.units FROM (
            SELECT a.key, a.job, false, a.units FROM unnest(take_key, take_seq, take_units) AS a (key, job, units)
            UNION ALL SELECT b.key, b.job, true, b.units FROM unnest(save_key, save_seq, save_units) AS b (key, job, units)
        ) AS t (key, job, reserved, units)
        ON CONFLICT (key, job) DO UPDATE
        SET since = excluded.since, reserved = excluded.reserved, units = excluded.units, expires_at = NULL;
    END IF;
    IF cardinality(park_seq) > 0 THEN
        UPDATE headgate.live j
        SET state = 'waiting', waiting_on = w.key, offered_by = NULL, units = w.units, refusals = w.refusals,
            set_aside = false, lacks_thread = false, unseen = false
        FROM unnest(park_seq, park_key, park_units, park_count) AS w (seq, key, units, refusals) WHERE j.seq = w.seq;
        UPDATE headgate.holders h SET expires_at = NULL WHERE h.job = ANY (park_seq) AND h.expires_at IS NOT NULL;
    END IF;
    IF cardinality(aside_seq) > 0 THEN
        UPDATE headgate.live j
        SET set_aside = true, lacks_thread = false, state = 'ready', waiting_on = NULL, offered_by = NULL, units = 0
        WHERE j.seq = ANY (aside_seq);
    END IF;
    IF cardinality(lack_seq) > 0 THEN
        PERFORM headgate._make_ready(keep_seq, keep_key, p_now, p_ttl);
        UPDATE headgate.live j SET set_aside = true, lacks_thread = true WHERE j.seq = ANY (lack_seq);
    END IF;
    aside := cardinality(aside_seq) + cardinality(lack_seq) > 0;
    refused_by := park_key;
    FOR i IN 1 .. coalesce(cardinality(v_keys), 0) LOOP
        IF v_spent[i] > 0 THEN
            PERFORM headgate._spend(v_keys[i], v_spent[i], p_now, spent_seq, spent_units,
                                    ARRAY(SELECT a = i FROM unnest(spent_at) AS a));
        END IF;
    END LOOP;
    IF late_seq <> '{}' THEN
        expired := true;
        touched := touched || headgate._leave(late_seq, {expired}, p_now, p_keep);
    END IF;
END $$;

-- What is claimed next: ready jobs and waiters that are offered room in this step, in one order.
-- p_ready     ready jobs in the order of the claim; p_offered, p_keys: waiters, as _next says; held by the caller
-- p_queues    the queues that are claimed from, in this order; NULL: all of them
-- p_paused    whether some queues are paused
-- `seqs` are to be claimed now, `keys` promised to them in this step; `later` and `later_keys` were offered room that
-- this step does not use.   Reads: live by primary key.
CREATE OR REPLACE FUNCTION headgate._choose(p_ready bigint[], p_offered bigint[], p_keys text[], p_queues text[],
                                            p_paused boolean, p_most integer,
                                            OUT seqs bigint[], OUT keys text[], OUT later bigint[],
                                            OUT later_keys text[])
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_offered = '{}' THEN
        seqs := p_ready;
        RETURN;
    ELSIF p_ready = '{}' AND p_queues IS NULL AND NOT p_paused AND cardinality(p_offered) <= p_most THEN
        seqs := p_offered;
        keys := p_keys;
        RETURN;
    END IF;
    SELECT coalesce(array_agg(o.seq ORDER BY o.n) FILTER (WHERE o.now), '{}'),
           array_agg(o.key ORDER BY o.n) FILTER (WHERE o.now),
           array_agg(o.seq) FILTER (WHERE NOT o.now AND o.key IS NOT NULL),
           array_agg(o.key) FILTER (WHERE NOT o.now AND o.key IS NOT NULL)
    INTO seqs, keys, later, later_keys
    FROM (
        SELECT p.seq, p.key, p.n, p.served AND p.n <= p_most AS now FROM (
            SELECT a.*, row_number() OVER (ORDER BY a.served DESC, a.place, a.priority, a.tag, a.due, a.seq) AS n FROM (
                SELECT j.seq, c.key, j.priority, j.tag, j.due, array_position(p_queues, j.queue) AS place,
                       c.key IS NULL OR (p_queues IS NULL OR j.queue = ANY (p_queues)) AND NOT (p_paused AND EXISTS (
                           SELECT 1 FROM headgate.paused x WHERE x.queue = j.queue)) AS served
                FROM (
                    SELECT u.seq, NULL::text AS key FROM unnest(p_ready) AS u (seq)
                    UNION ALL SELECT u.seq, u.key FROM unnest(p_offered, p_keys) AS u (seq, key)
                ) AS c JOIN headgate.live j ON j.seq = c.seq
            ) AS a
        ) AS p
    ) AS o;
END $$;

-- The keys of the waiters that will probably be offered what comes back of p_keys, so that they can be locked with
-- them.
-- Reads: live_waiting.
CREATE OR REPLACE FUNCTION headgate._next_keys(p_keys text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_caps boolean := headgate._any_caps();
BEGIN
    RETURN (
        SELECT array_agg(DISTINCT x.key) FROM unnest(p_keys) AS k (key)
        CROSS JOIN LATERAL (
            SELECT u.keys FROM headgate.live j, headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, v_caps) AS u
            WHERE j.state = 'waiting' AND j.waiting_on = k.key
            ORDER BY j.queue, j.priority, j.tag, j.due, j.seq LIMIT 2
        ) AS w, unnest(w.keys) AS x (key)
    );
END $$;

-- Lock what candidates need beyond p_locked, without waiting (6).   p_offers   what each was promised in this step
-- `seqs` are those whose keys are all held now, with their `keys` of p_offers; `skipped` are the others, `offered`
-- those among them that were offered room in this step, `offered_by` whose.
CREATE OR REPLACE FUNCTION headgate._lock_more(p_cands bigint[], p_offers text[], p_locked text[],
                                               OUT seqs bigint[], OUT keys text[], OUT locked text[],
                                               OUT skipped bigint[], OUT offered bigint[], OUT offered_by text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
BEGIN
    seqs := p_cands;
    keys := p_offers;
    locked := p_locked;
    skipped := '{}';
    offered := '{}';
    offered_by := '{}';
    IF headgate._keys_of(p_cands) <@ p_locked THEN
        RETURN;
    END IF;
    seqs := '{}';
    keys := '{}';
    FOR i IN 1 .. cardinality(p_cands) LOOP
        v_keys := ARRAY(SELECT k FROM unnest(headgate._keys_of(p_cands[i : i])) AS k WHERE k <> ALL (locked));
        IF v_keys = '{}' OR headgate._try_keys(v_keys) THEN
            locked := locked || v_keys;
            seqs := seqs || p_cands[i];
            keys := array_append(keys, p_offers[i]);
        ELSE
            skipped := skipped || p_cands[i];
            IF p_offers[i] IS NOT NULL THEN
                offered := offered || p_cands[i];
                offered_by := offered_by || p_offers[i];
            END IF;
        END IF;
    END LOOP;
END $$;
