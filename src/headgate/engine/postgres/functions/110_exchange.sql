-- Settle what finished, give back, offer, claim, park: one step.
-- p_worker    the worker; p_jobs … p_times are its reports, at most one of each attempt besides progress (kind p)
-- p_number    the number of this message, larger than that of every message of the registration before (rule 13); NULL:
--             not numbered
-- p_want      how many jobs to claim, from p_queues in this order or from all (NULL)
-- p_suspects  whether suspects of a level above 1 may be among them, as far as the worker has room for them (rule 15)
-- p_by        the listener of this process; p_sole: it is this worker's alone and wants no call while the worker is
--             full. When it begins to want one, `more` asks for another look: what was committed meanwhile called
--             nobody.
-- Answers with a row for each started job, in the order of `place`, and a last one (no id) about the step as a whole:
-- A job that is not `readable` was started without its keys, for the caller to end it. In the row of a started job
-- `next_due` is the time at which that job was due.
-- `leased` is false, and nothing was done, when the lease has lapsed; so is it with `last`, the number of the worker's
-- last message, when this one came too late. `refused` are positions in p_jobs.
-- Locks: rules (1), the worker (2), reported jobs in order and ready ones (3), keys (4), waiters (5), keys
-- (6).
-- Reads: jobs_id, live by primary key, live_ready, live_fresh, live_aside, live_suspects, live_waiting, live_offered,
-- live_cancelling.
CREATE OR REPLACE FUNCTION headgate.exchange(
    p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[], p_texts text[], p_times bigint[],
    p_want integer, p_queues text[], p_now bigint, p_patience integer, p_ttl bigint, p_keep bigint[], p_by text,
    p_sole boolean, p_number bigint, p_suspects boolean)
RETURNS TABLE (
    place bigint, id text, number integer, task text, queue text, args text, tenant text, priority smallint,
    tries integer, retry text, timeout bigint, metadata text, enqueued bigint, progress text,
    at bigint, leased boolean, refused integer[], cancelling text[], next_due bigint, more boolean, wake boolean,
    ended boolean, again boolean, set_aside text[], suspicion integer, last bigint, readable boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_known   text[];
    v_places_of integer;       -- how many jobs the worker runs at once
    v_seqs    bigint[];
    v_kinds   text[];
    v_texts   text[];
    v_times   bigint[];
    v_touched text[] := '{}';
    v_locked  text[] := '{}';
    v_cands   bigint[] := '{}';
    v_offers  text[];          -- for each candidate the key whose room it is promised in this very step, if any
    v_left    bigint[] := '{}';
    v_round   bigint[];
    v_freed   text[];          -- what the reported jobs hold
    v_keys    text[];
    v_needed  text[];          -- keys of the candidates
    v_wanted  integer := p_want;
    v_looks   integer := p_want + 256;
    v_offered integer := 0;
    v_spare   boolean;
    v_each    boolean := false;
    v_limited boolean := false;
    v_capped  boolean;
    v_aside   boolean;         -- whether there is anybody set aside, any newcomer, any paused queue
    v_fresh   boolean;
    v_paused  boolean;
    v_suspect boolean;
    v_promised boolean;        -- whether there were offers, and keys to look at, when this step began
    v_look    boolean;
    v_made    integer := 0;    -- how many were offered room in this step
    v_places  bigint[];
    v_first   text;
    v_last    text;
    v_passed  boolean := false;
    v_simple  boolean := false;  -- whether the candidates need nothing or one key each, whose room they were promised
    v_new     boolean;
    v_met     boolean := false;
    v_many    boolean := false;
    l         record;
    v_asked   integer;
    v_found   integer;
    v_unknown text[] := '{}';
    v_all     boolean := false;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1212629332, {lock});
    at := headgate._now(p_now);
    -- Writing the number holds the worker's row: an older message that waits for it here finds the newer number then,
    -- and one that got here first has taken effect whole before the newer one goes on.
    UPDATE headgate.workers w SET number = coalesce(p_number, w.number)
    WHERE w.id = p_worker AND w.lease_until > at AND w.number < coalesce(p_number, w.number + 1)
    RETURNING w.tasks, w.concurrency, EXISTS (SELECT 1 FROM headgate.live j WHERE j.set_aside),
           EXISTS (SELECT 1 FROM headgate.live j WHERE j.fresh), EXISTS (SELECT 1 FROM headgate.paused),
           EXISTS (SELECT 1 FROM headgate.live j WHERE j.offered_by IS NOT NULL),
           EXISTS (SELECT 1 FROM headgate.rechecks),
           EXISTS (SELECT 1 FROM headgate.limits m WHERE m.cap AND m.kind <> 'rate')
               OR EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.cap),
           EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0)
    INTO v_known, v_places_of, v_aside, v_fresh, v_paused, v_promised, v_look, v_capped, v_suspect;
    leased := FOUND;
    IF NOT leased THEN
        SELECT w.number INTO last FROM headgate.workers w WHERE w.id = p_worker AND w.lease_until > at;
        RETURN NEXT;
        RETURN;
    END IF;
    more := false;
    wake := false;
    ended := cardinality(p_jobs) > 0;

    -- The fence. Plain successes are written down at once, and their slots given back: nobody else touches the holders
    -- of a job whose row is held. Who is next is decided when the keys are locked.
    IF NOT ended THEN
        NULL;
    ELSIF 's' = ALL (p_kinds) THEN
        -- (The || '' keep the planner from live_running: a worker has many rows.)
        WITH done AS (
            DELETE FROM headgate.live j
            USING (
                SELECT o.seq, o.retention, u.attempt, u.said, u.n
                FROM unnest(p_jobs, p_attempts, p_texts) WITH ORDINALITY AS u (id, attempt, said, n)
                JOIN headgate.jobs o ON o.id = u.id ORDER BY o.seq
            ) AS r
            WHERE j.seq = r.seq AND j.attempt = r.attempt AND j.worker || '' = p_worker AND j.state || '' = 'running'
            RETURNING j.seq, j.due, j.attempt, j.tries, j.started_at, j.cancel_requested, j.progress, r.retention,
                      r.said, r.n
        ), written AS (
            INSERT INTO headgate.ended (seq, state, due, attempt, tries, worker, started_at, ended_at, outcome,
                                        cancel_requested, result, progress, expires_at)
            SELECT d.seq, 'succeeded', d.due, d.attempt, d.tries, p_worker, d.started_at, at, 'succeeded',
                   d.cancel_requested, d.said, d.progress, at + coalesce(d.retention, p_keep[1])
            FROM done d
        )
        SELECT array_agg(d.seq), array_agg(d.n) INTO v_seqs, v_places FROM done d;
        WITH gone AS (
            DELETE FROM headgate.holders h WHERE h.job = ANY (v_seqs) RETURNING h.key
        )
        SELECT array_agg(g.key) INTO v_freed FROM gone g;
        IF v_places IS NULL OR cardinality(v_places) < cardinality(p_jobs) THEN
            refused := ARRAY(SELECT r.n FROM generate_series(1, cardinality(p_jobs)) AS r (n)
                WHERE r.n <> ALL (coalesce(v_places, '{}')));
        END IF;
    ELSE
        SELECT d.seqs, d.kinds, d.texts, d.times, d.keys, d.refused INTO v_seqs, v_kinds, v_texts, v_times, v_freed,
            refused
        FROM headgate._report(p_worker, p_jobs, p_attempts, p_kinds, p_texts, p_times) AS d;
        v_each := 'r' = ANY (p_kinds) OR EXISTS (
            SELECT 1 FROM unnest(p_kinds, p_times) AS r (kind, pause) WHERE r.kind IN ('f', 'z') AND r.pause <= 0);
        IF v_each THEN
            v_keys := headgate._keys_of(v_seqs);
        END IF;
    END IF;

    -- All keys that this step will need, as far as it can see, are locked at once.
    v_keys := v_freed || v_keys;
    IF v_wanted > 0 THEN
        IF p_queues IS NULL AND NOT (v_aside OR v_fresh OR v_paused OR v_suspect) THEN
            -- One line is all there is, most of the time: it is read from its front once.
            SELECT array_agg(f.seq), coalesce(bool_or(f.limited), false), coalesce(bool_and(f.simple), false),
                   array_agg(f.offered_by) FILTER (WHERE f.offered_by IS NOT NULL), min(f.queue),
                   (SELECT max(j.queue) FROM headgate.live j
                    WHERE j.state = 'ready' AND NOT j.set_aside AND NOT j.fresh AND j.suspicion = 0)
            INTO v_cands, v_limited, v_simple, v_needed, v_first, v_last FROM (
                SELECT j.seq, j.queue, j.offered_by, j.use_keys IS NOT NULL OR j.offered_by IS NOT NULL
                       OR j.refusals IS NOT NULL OR j.task <> ALL (v_known) AS limited,
                       j.task = ANY (v_known) AND j.units <= 1
                       AND CASE WHEN j.offered_by IS NULL THEN j.use_keys IS NULL AND j.refusals IS NULL
                                ELSE j.use_keys = ARRAY[j.offered_by] END AS simple
                FROM headgate.live j
                WHERE j.state = 'ready' AND NOT j.set_aside AND NOT j.fresh AND j.suspicion = 0
                ORDER BY j.queue, j.priority, j.due, j.seq LIMIT least(v_wanted, v_looks)
                FOR UPDATE SKIP LOCKED
            ) AS f;
            v_cands := coalesce(v_cands, '{}');
        END IF;
        IF v_first IS DISTINCT FROM v_last OR p_queues IS NOT NULL OR v_aside OR v_fresh OR v_paused OR v_suspect
            THEN
            SELECT r.seqs, r.spare, r.limited, r.newcomers INTO v_cands, v_spare, v_limited, v_new
            FROM headgate._ready(p_queues, v_known, least(v_wanted, v_looks), '{}', p_worker, v_places_of,
                                 p_suspects, at) AS r;
            wake := v_spare;
        END IF;
        IF cardinality(v_keys) > cardinality(v_seqs) THEN  -- they have several: so will who is offered what comes back
            v_keys := v_keys || headgate._next_keys(v_keys, v_capped);
        END IF;
        IF v_first IS DISTINCT FROM v_last OR v_paused OR NOT v_limited THEN
            v_simple := false;
        END IF;
        IF v_limited AND cardinality(p_queues) = 1 AND NOT (v_capped OR v_paused) THEN
            SELECT array_agg(j.offered_by) FILTER (WHERE j.offered_by IS NOT NULL), coalesce(bool_and(
                       j.suspicion = 0 AND NOT j.fresh AND j.task = ANY (v_known) AND j.units <= 1
                       AND CASE WHEN j.offered_by IS NULL THEN j.use_keys IS NULL AND j.refusals IS NULL
                                ELSE j.use_keys = ARRAY[j.offered_by] END), false)
            INTO v_needed, v_simple FROM headgate.live j WHERE j.seq = ANY (v_cands);
        END IF;
        IF v_capped OR v_limited AND NOT v_simple THEN
            v_simple := false;
            v_needed := headgate._keys_of(v_cands);
        END IF;
        v_keys := v_keys || v_needed;
        IF v_look THEN
            -- Also where slots came back: a newcomer on an idle key may come before the waiters of these. Not many more
            -- than there are places for: the rest is for others, at this very moment.
            v_freed := v_freed || headgate._checks(v_wanted, p_queues);
            v_keys := v_keys || v_freed;
        END IF;
    END IF;
    IF cardinality(v_keys) > 0 THEN
        INSERT INTO headgate.keys (key) SELECT u.key FROM unnest(v_keys) AS u (key)
        WHERE u.key IS NOT NULL GROUP BY u.key ORDER BY u.key COLLATE "C"
        ON CONFLICT (key) DO UPDATE SET key = excluded.key WHERE false;  -- as _lock_keys does
        v_locked := v_keys;
        at := headgate._now(p_now);  -- what starts now, and what is spent, is booked after the wait
    END IF;

    -- Where all that is ready are newcomers on busy keys, they stand in line before anything is passed on.
    IF v_new AND cardinality(v_cands) > 0 AND cardinality(v_freed) > 0 AND NOT v_capped AND NOT v_each THEN
        v_found := cardinality(v_cands);
        SELECT a.cands, a.offers INTO v_cands, v_offers FROM headgate._meet(v_cands, v_known, at) AS a;
        v_limited := cardinality(v_cands) > 0;
        IF v_limited THEN
            PERFORM headgate._promise(v_cands, v_offers);
        END IF;
        v_met := NOT v_limited AND v_found = least(v_wanted, v_looks);
    END IF;

    -- Settle, give back, offer.
    v_touched := v_freed;
    IF cardinality(v_seqs) IS NULL THEN
        NULL;
    ELSIF v_each THEN
        v_touched := v_freed || headgate._end_each(v_seqs, v_kinds, v_texts, v_times, at, p_keep);
        wake := true;
    ELSIF v_kinds IS NOT NULL THEN
        PERFORM headgate._settle(v_seqs, v_kinds, v_texts, v_times, at, p_keep);
        v_touched := v_freed || headgate._give_back(v_seqs);
        wake := wake OR p_kinds && ARRAY['f', 'z'];
    END IF;
    v_simple := (v_simple OR cardinality(v_cands) = 0 AND NOT (v_capped OR v_limited OR v_paused)) AND NOT v_each
        AND v_wanted > 0;
    IF v_simple AND cardinality(v_touched) > 0 THEN
        -- Where nothing that is ready comes before, a slot goes straight to the next in line: from waiting to running in
        -- one write.
        SELECT n.seqs, n.keys, n.simple INTO v_round, v_offers, v_passed
        FROM headgate._pass_on(v_touched, v_known, p_queues, v_promised) AS n;
    ELSE
        v_passed := v_simple AND cardinality(v_cands) > 0;
    END IF;
    IF v_passed AND (cardinality(v_cands) > 0 OR cardinality(v_round) > v_wanted) THEN
        SELECT m.seqs, m.keys, m.simple, m.offered, wake OR m.left > 0 OR m.offered > cardinality(v_cands)
        INTO v_round, v_offers, v_passed, v_made, wake
        FROM headgate._merge(v_cands, v_round, v_offers, v_wanted) AS m;
    END IF;
    IF NOT v_passed THEN
        v_needed := CASE WHEN NOT v_simple THEN v_needed END;  -- what it leaves out is of uncommon cases
        v_offered := headgate._offer(v_touched, at, p_ttl);
        v_made := v_offered;
    END IF;

    -- Claim in rounds, since refused jobs may let others be offered.
    WHILE v_wanted > 0 AND v_looks > 0 LOOP
        v_touched := '{}';
        -- Where nothing but newcomers was found that have to stand in line, more of them are looked at together.
        v_asked := CASE WHEN v_many THEN v_looks ELSE least(v_wanted, v_looks) END;
        IF v_passed THEN
            v_found := cardinality(v_round);
            v_asked := v_wanted + 1;
            INSERT INTO headgate.holders (key, job, since, reserved)
            SELECT k.key, k.job, at, false FROM unnest(v_offers, v_round) AS k (key, job) WHERE k.key IS NOT NULL;
        ELSE
            IF v_offered > 0 OR v_each OR v_cands IS NULL THEN
                -- Those found before are held, so that others pass over them, and may not be among the next.
                wake := wake OR coalesce(cardinality(v_cands), 0) > 0;
                SELECT r.seqs, r.spare, r.limited INTO v_cands, v_spare, v_limited
                FROM headgate._ready(p_queues, v_known, v_asked, v_left, p_worker, v_places_of,
                                 p_suspects, at) AS r;
                wake := wake OR v_spare;
                v_needed := NULL;
            END IF;
            v_found := cardinality(v_cands);
            v_looks := v_looks - v_found;
            v_limited := v_limited OR v_capped;
            v_each := false;
            IF NOT v_limited THEN
                v_round := v_cands;
            ELSIF v_found > 0 THEN
                IF v_needed IS NULL THEN
                    SELECT r.cands, r.needed, v_locked || r.locked, v_left || r.skipped
                        INTO v_cands, v_needed, v_locked, v_left
                    FROM headgate._lock_more(v_cands, v_locked) AS r;
                END IF;
                -- Newcomers arrive first; who has no room stands in line now.
                SELECT a.cands, a.offers, a.touched INTO v_cands, v_offers, v_touched
                FROM headgate._meet(v_cands, v_known, at) AS a;
                v_many := v_found = v_asked AND cardinality(v_cands) = 0;
                IF cardinality(v_cands) > v_wanted THEN  -- others may have passed over the rest meanwhile
                    PERFORM headgate._promise(v_cands[v_wanted + 1 :], v_offers[v_wanted + 1 :]);
                    v_cands := v_cands[1 : v_wanted];
                    wake := true;
                END IF;
                SELECT c.started, v_touched || c.touched, v_unknown || c.unknown INTO v_round, v_touched, v_unknown
                FROM headgate._claim(v_cands, v_needed, v_offers, v_known, at, p_patience) AS c;
            END IF;
        END IF;
        IF v_found > 0 AND cardinality(v_round) > 0 THEN
            RETURN QUERY UPDATE headgate.live j
            SET state = 'running', worker = p_worker, attempt = j.attempt + 1, tries = j.tries + 1,
                started_at = exchange.at, error = NULL, waiting_on = NULL, offered_by = NULL, units = 0,
                set_aside = false, fresh = false
            FROM unnest(v_round) WITH ORDINALITY AS r (seq, n) JOIN headgate.jobs o ON o.seq = r.seq
            WHERE j.seq = r.seq
            RETURNING r.n - v_wanted, o.id, j.attempt, o.task, o.queue, o.args, o.tenant, o.priority, j.tries, o.retry,
                o.timeout, o.metadata, o.enqueued_at, j.progress, NULL::bigint, NULL::boolean, NULL::integer[],
                NULL::text[], j.due, NULL::boolean, NULL::boolean, NULL::boolean, NULL::boolean, NULL::text[],
                j.suspicion, NULL::bigint, j.use_keys IS NULL OR headgate._are_uses(j.use_keys, j.use_units);
            v_wanted := v_wanted - cardinality(v_round);
        END IF;
        v_offered := 0;
        IF cardinality(v_touched) > 0 THEN
            v_offered := headgate._offer(v_touched, at, p_ttl);
            v_made := v_made + v_offered;
        END IF;
        v_cands := NULL;
        v_passed := false;
        v_all := v_offered = 0 AND v_found < v_asked;
        EXIT WHEN v_all;
    END LOOP;
    more := (v_wanted > 0 AND (v_met OR NOT v_all OR v_look AND EXISTS (SELECT 1 FROM headgate.rechecks)))
        OR cardinality(v_left) > 0;
    IF cardinality(v_unknown) > 0 THEN
        set_aside := ARRAY(SELECT u.task FROM unnest(v_unknown) WITH ORDINALITY AS u (task, n) GROUP BY u.task
            ORDER BY min(u.n));
    END IF;
    -- Also where more were offered room than start here, or in queues that this worker does not serve.
    wake := wake OR v_offered > 0 OR cardinality(v_left) > 0 OR v_made > 0 AND p_queues IS NOT NULL
        OR v_wanted = 0 AND v_made > p_want;

    -- One look at what is asked of everybody.
    SELECT n.cancelling, n.at, w.work, w.busy, w.ended, w.own INTO l
    FROM (SELECT bool_or(x.work) FILTER (WHERE x.id IS DISTINCT FROM p_by) AS work,
                 bool_or(NOT x.work) FILTER (WHERE x.id IS DISTINCT FROM p_by) AS busy,
                 bool_or(x.ended) FILTER (WHERE x.id IS DISTINCT FROM p_by) AS ended,
                 bool_or(x.work) FILTER (WHERE x.id = p_by) AS own
          FROM headgate.listeners x) AS w
    CROSS JOIN headgate._asked(p_worker) AS n;
    cancelling := l.cancelling;
    next_due := l.at;
    again := NOT headgate._ring(wake, ended, p_by, l.work, l.busy, l.ended);
    IF p_sole AND p_want > 0 AND l.own <> (v_wanted > 0) THEN
        UPDATE headgate.listeners x SET work = v_wanted > 0 WHERE x.id = p_by AND x.work <> (v_wanted > 0);
        more := more OR (FOUND AND v_wanted > 0);
    END IF;
    RETURN NEXT;
END $$;

-- The keys of those who will probably be offered what comes back of p_keys, so that they can be locked with them.
-- Reads: live_waiting.
CREATE OR REPLACE FUNCTION headgate._next_keys(p_keys text[], p_caps boolean) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg(DISTINCT x.key) FROM unnest(p_keys) AS k (key)
        CROSS JOIN LATERAL (
            SELECT u.keys FROM headgate.live j, headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, p_caps) AS u
            WHERE j.state = 'waiting' AND j.waiting_on = k.key
            ORDER BY j.queue, j.priority, j.due, j.seq LIMIT 2
        ) AS w, unnest(w.keys) AS x (key)
    );
END $$;

-- Lock what candidates need beyond p_locked, without waiting (6).
-- `cands` are those whose keys are all held now, `needed` their keys, `locked` the new ones, `skipped` the others.
CREATE OR REPLACE FUNCTION headgate._lock_more(p_cands bigint[], p_locked text[],
                                               OUT cands bigint[], OUT needed text[], OUT locked text[],
                                                   OUT skipped bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_seq  bigint;
    v_keys text[];
BEGIN
    cands := p_cands;
    needed := headgate._keys_of(p_cands);
    locked := '{}';
    skipped := '{}';
    IF needed <@ p_locked THEN
        RETURN;
    END IF;
    FOREACH v_seq IN ARRAY p_cands LOOP
        v_keys := ARRAY(SELECT k FROM unnest(headgate._keys_of(ARRAY[v_seq])) AS k WHERE k <> ALL (p_locked || locked));
        IF cardinality(v_keys) > 0 THEN
            IF headgate._try_keys(v_keys) THEN
                locked := locked || v_keys;
            ELSE
                skipped := skipped || v_seq;
                cands := array_remove(cands, v_seq);
            END IF;
        END IF;
    END LOOP;
END $$;
