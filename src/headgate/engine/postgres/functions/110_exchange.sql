-- Settle what finished, give back, offer, claim, park: one step.
-- p_worker    the worker; p_jobs … p_times are its reports, at most one of each attempt besides progress (kind p)
-- p_want      how many jobs to claim, from p_queues in this order or from all (NULL)
-- p_by        the listener of this process; p_sole: it is this worker's alone and wants no call while the worker is
--             full. When it begins to want one, `more` asks for another look: what was committed meanwhile called
--             nobody.
-- Answers `leased` false, having done nothing, when the lease has lapsed. `refused` are positions in p_jobs.
-- Locks: rules (1), the worker KEY SHARE (2), reported jobs in order and ready ones (3), keys (4), waiters (5), keys
-- (6).
-- Reads: jobs_id, live by primary key, live_ready, live_fresh, live_aside, live_waiting, live_offered, live_cancelling.
CREATE OR REPLACE FUNCTION headgate.exchange(
    p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[], p_texts text[], p_times bigint[],
    p_want integer, p_queues text[], p_now bigint, p_patience integer, p_ttl bigint, p_keep bigint[], p_by text,
        p_sole boolean,
    OUT leased boolean, OUT at bigint, OUT refused integer[], OUT cancelling text[], OUT next_due bigint,
        OUT more boolean,
    OUT wake boolean, OUT ended boolean, OUT again boolean, OUT set_aside text[],
    OUT ids text[], OUT numbers integer[], OUT tasks text[], OUT queues text[], OUT args text[], OUT tenants text[],
    OUT priorities smallint[], OUT tries integer[], OUT retries text[], OUT timeouts bigint[], OUT metadatas text[],
    OUT enqueued bigint[], OUT progresses text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_known   text[];
    v_until   bigint;
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
    v_passed  boolean := false;
    v_new     boolean;
    v_met     boolean := false;
    v_many    boolean := false;
    s         record;
    v_asked   integer;
    v_found   integer;
    v_unknown text[] := '{}';
    v_all     boolean := false;
BEGIN
    at := headgate._now(p_now);
    PERFORM pg_advisory_xact_lock_shared(1212629332, {lock});
    SELECT w.tasks, w.lease_until INTO v_known, v_until FROM headgate.workers w WHERE w.id = p_worker FOR KEY SHARE;
    leased := coalesce(v_until > at, false);
    IF NOT leased THEN
        RETURN;
    END IF;
    more := false;
    wake := false;
    ended := cardinality(p_jobs) > 0;
    v_capped := headgate._any_caps();

    -- The fence. Plain successes are written down at once; what they held is given back when its keys are locked.
    IF NOT ended THEN
        NULL;
    ELSIF 's' = ALL (p_kinds) THEN
        SELECT d.seqs, d.keys, d.refused INTO v_seqs, v_freed, refused
        FROM headgate._succeed(p_worker, p_jobs, p_attempts, p_texts, at, p_keep) AS d;
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
        SELECT r.seqs, r.spare, r.limited, r.newcomers INTO v_cands, v_spare, v_limited, v_new
        FROM headgate._ready(p_queues, v_known, least(v_wanted, v_looks), '{}') AS r;
        wake := v_spare;
        IF cardinality(v_keys) > cardinality(v_seqs) THEN  -- they have several: so will who is offered what comes back
            v_keys := v_keys || headgate._next_keys(v_keys, v_capped);
        END IF;
        IF v_limited OR v_capped THEN
            v_needed := headgate._keys_of(v_cands);
            v_keys := v_keys || v_needed;
        END IF;
    END IF;
    IF cardinality(v_keys) > 0 THEN
        PERFORM headgate._lock_keys(v_keys);
        v_locked := v_keys;
    END IF;

    -- Where all that is ready are newcomers on busy keys, they stand in line before anything is passed on.
    IF v_new AND cardinality(v_cands) > 0 AND cardinality(v_freed) > 0 AND NOT v_capped AND NOT v_each THEN
        v_found := cardinality(v_cands);
        SELECT a.cands INTO v_cands FROM headgate._meet(v_cands, v_known, at) AS a;
        v_limited := cardinality(v_cands) > 0;
        v_met := NOT v_limited AND v_found = least(v_wanted, v_looks);
    END IF;

    -- Settle, give back, offer.
    IF cardinality(v_seqs) > 0 THEN
        IF v_each THEN
            v_touched := headgate._end_each(v_seqs, v_kinds, v_texts, v_times, at, p_keep);
            wake := true;
        ELSE
            IF v_kinds IS NOT NULL THEN
                PERFORM headgate._settle(v_seqs, v_kinds, v_texts, v_times, at, p_keep);
                wake := wake OR p_kinds && ARRAY['f', 'z'];
            END IF;
            IF v_wanted > 0 AND cardinality(v_cands) = 0 AND cardinality(v_freed) > 0 AND NOT v_capped AND NOT v_limited
                THEN
                -- Nobody is ready before: a slot may go straight to the next in line, from waiting to running in one
                -- write.
                SELECT n.seqs, n.keys, n.simple INTO v_round, v_offers, v_passed
                FROM headgate._pass_on(v_seqs, v_freed, v_known, p_queues, v_wanted) AS n;
                v_touched := v_freed;
            ELSIF cardinality(v_locked) > 0 THEN
                v_touched := headgate._give_back(v_seqs);
            END IF;
        END IF;
        IF NOT v_passed THEN
            v_offered := headgate._offer(v_touched, at, p_ttl);
        END IF;
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
            SELECT k.key, k.job, at, false FROM unnest(v_offers, v_round) AS k (key, job);
        ELSE
            IF v_offered > 0 OR v_each OR v_cands IS NULL THEN
                SELECT r.seqs, r.spare, r.limited INTO v_cands, v_spare, v_limited
                FROM headgate._ready(p_queues, v_known, v_asked, v_left) AS r;
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
                    v_cands := v_cands[1 : v_wanted];
                    wake := true;
                END IF;
                SELECT c.started, v_touched || c.touched, v_unknown || c.unknown INTO v_round, v_touched, v_unknown
                FROM headgate._claim(v_cands, v_needed, v_offers, v_known, at, p_patience) AS c;
            END IF;
        END IF;
        IF v_found > 0 AND cardinality(v_round) > 0 THEN
            WITH begun AS (
                UPDATE headgate.live j
                SET state = 'running', worker = p_worker, attempt = j.attempt + 1, tries = j.tries + 1, started_at = at,
                    error = NULL, waiting_on = NULL, offered_by = NULL, units = 0, set_aside = false, fresh = false
                FROM unnest(v_round) WITH ORDINALITY AS r (seq, n) JOIN headgate.jobs o ON o.seq = r.seq
                WHERE j.seq = r.seq
                RETURNING r.n, o.id, j.attempt, o.task, o.queue, o.args, o.tenant, o.priority, j.tries, o.retry,
                          o.timeout, o.metadata, o.enqueued_at, j.progress
            )
            SELECT array_agg(x.id) AS ids, array_agg(x.attempt) AS numbers, array_agg(x.task) AS tasks,
                   array_agg(x.queue) AS queues, array_agg(x.args) AS args, array_agg(x.tenant) AS tenants,
                   array_agg(x.priority) AS priorities, array_agg(x.tries) AS tries, array_agg(x.retry) AS retries,
                   array_agg(x.timeout) AS timeouts, array_agg(x.metadata) AS metadatas,
                   array_agg(x.enqueued_at) AS enqueued, array_agg(x.progress) AS progresses
            INTO s FROM (SELECT b.* FROM begun b ORDER BY b.n) AS x;
            ids := ids || s.ids;
            numbers := numbers || s.numbers;
            tasks := tasks || s.tasks;
            queues := queues || s.queues;
            args := args || s.args;
            tenants := tenants || s.tenants;
            priorities := priorities || s.priorities;
            tries := tries || s.tries;
            retries := retries || s.retries;
            timeouts := timeouts || s.timeouts;
            metadatas := metadatas || s.metadatas;
            enqueued := enqueued || s.enqueued;
            progresses := progresses || s.progresses;
            v_wanted := v_wanted - cardinality(v_round);
        END IF;
        v_offered := 0;
        IF cardinality(v_touched) > 0 THEN
            v_offered := headgate._offer(v_touched, at, p_ttl);
        END IF;
        v_cands := NULL;
        v_passed := false;
        v_all := v_offered = 0 AND v_found < v_asked;
        EXIT WHEN v_all;
    END LOOP;
    more := (v_wanted > 0 AND (v_met OR NOT v_all)) OR cardinality(v_left) > 0;
    IF cardinality(v_unknown) > 0 THEN
        set_aside := ARRAY(SELECT u.task FROM unnest(v_unknown) WITH ORDINALITY AS u (task, n) GROUP BY u.task
            ORDER BY min(u.n));
    END IF;
    wake := wake OR v_offered > 0 OR cardinality(v_left) > 0;

    cancelling := headgate._cancelling(p_worker);
    next_due := headgate._next_due();
    again := NOT headgate.wake(wake, ended, p_by);
    IF p_sole AND p_want > 0 THEN
        UPDATE headgate.listeners l SET work = v_wanted > 0 WHERE l.id = p_by AND l.work <> (v_wanted > 0);
        more := more OR (FOUND AND v_wanted > 0);
    END IF;
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
