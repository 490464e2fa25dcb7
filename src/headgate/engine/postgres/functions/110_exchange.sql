-- Settle what finished, give back, offer, claim, park: one step.
-- p_worker    the worker; p_jobs … p_times are its reports, at most one of each attempt besides progress (kind p)
-- p_want      how many jobs to claim, from p_queues in this order or from all (NULL)
-- p_by        the listener of this process; p_sole: it is this worker's alone and wants no call while the worker is full.
--             When it begins to want one, `more` asks for another look: what was committed meanwhile called nobody.
-- Answers `leased` false, having done nothing, when the lease has lapsed. `refused` are positions in p_jobs.
-- Locks: rules (1), the worker KEY SHARE (2), reported jobs in order and ready ones (3), keys (4), waiters (5), keys (6).
-- Reads: jobs_id, jobs_ready, jobs_waiting, jobs_offered, jobs_cancelling.
CREATE OR REPLACE FUNCTION headgate.exchange(
    p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[], p_texts text[], p_times bigint[],
    p_want integer, p_queues text[], p_now bigint, p_patience integer, p_ttl bigint, p_keep bigint[], p_by text, p_sole boolean,
    OUT leased boolean, OUT at bigint, OUT refused integer[], OUT cancelling text[], OUT next_due bigint, OUT more boolean,
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
    v_plain   bigint[];
    v_left    bigint[] := '{}';
    v_round   bigint[];
    v_keys    text[];
    v_needed  text[];          -- keys of the candidates
    v_wanted  integer := p_want;
    v_looks   integer := p_want + 256;
    v_offered integer := 0;
    v_spare   boolean;
    v_each    boolean;
    v_limited boolean := false;
    v_capped  boolean;
    s         record;
    v_seq     bigint;
    v_asked   integer;
    v_found   integer;
    v_unknown text[] := '{}';
    v_all     boolean := false;
    v_offers  text[];
    v_easy    boolean;
    v_direct  boolean := false;
BEGIN
    at := headgate._now(p_now);
    PERFORM headgate._hold_rules();
    SELECT w.tasks, w.lease_until INTO v_known, v_until FROM headgate.workers w WHERE w.id = p_worker FOR KEY SHARE;
    leased := coalesce(v_until > at, false);
    IF NOT leased THEN
        RETURN;
    END IF;
    more := false;
    wake := false;
    ended := false;

    -- The fence, and the jobs behind it. (The || '' keep the planner from jobs_running: ids find few rows, a worker many.)
    IF cardinality(p_jobs) > 0 THEN
        PERFORM 1 FROM headgate.jobs j
        WHERE j.id = ANY (p_jobs) AND j.state || '' = 'running' AND j.worker || '' = p_worker ORDER BY j.seq FOR UPDATE;
        SELECT array_agg(x.seq) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
               array_agg(x.kind) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
               array_agg(x.said) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
               array_agg(x.pause) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
               array_agg(x.n::integer) FILTER (WHERE x.seq IS NULL)
        INTO v_seqs, v_kinds, v_texts, v_times, refused
        FROM (
            SELECT j.seq, r.n, r.kind, r.said, r.pause
            FROM unnest(p_jobs, p_attempts, p_kinds, p_texts, p_times) WITH ORDINALITY AS r (id, attempt, kind, said, pause, n)
            LEFT JOIN headgate.jobs j ON j.id = r.id AND j.attempt = r.attempt
                AND j.worker || '' = p_worker AND j.state || '' = 'running'
            ORDER BY r.n
        ) AS x;
        ended := true;
        IF 'p' = ANY (p_kinds) THEN
            UPDATE headgate.jobs j SET progress = r.said
            FROM unnest(p_jobs, p_attempts, p_kinds, p_texts) AS r (id, attempt, kind, said)
            WHERE r.kind = 'p' AND j.id = r.id AND j.attempt = r.attempt AND j.worker || '' = p_worker AND j.state || '' = 'running';
        END IF;
    END IF;

    -- All keys that this step will need, as far as it can see, are locked at once.
    IF v_wanted > 0 THEN
        SELECT r.seqs, r.spare, r.limited INTO v_cands, v_spare, v_limited
        FROM headgate._ready(p_queues, v_known, least(v_wanted, v_looks), '{}') AS r;
        wake := v_spare;
    END IF;
    v_capped := headgate._any_caps();
    SELECT coalesce(array_agg(h.key), '{}') INTO v_keys FROM headgate.holders h WHERE h.job = ANY (v_seqs);
    IF cardinality(v_keys) > 0 AND v_wanted > 0 THEN  -- who will probably be offered what comes back
        v_keys := v_keys || coalesce((
            SELECT array_agg(DISTINCT x.key) FROM unnest(v_keys) AS k (key)
            CROSS JOIN LATERAL (
                SELECT u.keys FROM headgate.jobs j, headgate._uses_of(j.task, j.queue, j.use_keys, j.use_units, v_capped) AS u
                WHERE j.state = 'waiting' AND j.waiting_on = k.key
                ORDER BY j.queue, j.priority, j.due, j.seq LIMIT 2
            ) AS w, unnest(w.keys) AS x (key)), '{}');
    END IF;
    v_each := p_kinds && ARRAY['r'] OR EXISTS (
        SELECT 1 FROM unnest(p_kinds, p_times) AS r (kind, pause) WHERE r.kind IN ('f', 'z') AND r.pause <= 0);
    IF v_each THEN
        v_keys := v_keys || coalesce(headgate._keys_of(v_seqs), '{}');
    END IF;
    IF v_limited OR v_capped THEN
        v_needed := coalesce(headgate._keys_of(v_cands), '{}');
        v_keys := v_keys || v_needed;
    END IF;
    IF cardinality(v_keys) > 0 THEN
        PERFORM headgate._lock_keys(v_keys);
        v_locked := v_keys;
    END IF;

    -- Settle, give back, offer.
    IF cardinality(v_seqs) > 0 THEN
        IF v_each THEN
            v_touched := headgate._end_each(v_seqs, v_kinds, v_texts, v_times, at, p_keep);
            wake := true;
        ELSE
            IF cardinality(v_locked) > 0 THEN
                v_touched := headgate._give_back(v_seqs);
            END IF;
            PERFORM headgate._settle(v_seqs, v_kinds, v_texts, v_times, at, p_keep);
            wake := wake OR p_kinds && ARRAY['f', 'z'];
        END IF;
        -- A slot goes straight to the next in line where nobody is ready before: from waiting to running in one write.
        IF v_wanted > 0 AND cardinality(v_cands) = 0 AND NOT v_each AND NOT v_capped AND NOT v_limited
           AND cardinality(v_touched) > 0 AND NOT EXISTS (SELECT 1 FROM unnest(v_touched) AS k (key) WHERE k.key LIKE 'r%') THEN
            SELECT n.seqs, n.keys INTO v_round, v_offers FROM headgate._next(v_touched, at) AS n;
            SELECT array_agg(o.seq), array_agg(o.key), bool_and(o.easy) INTO v_cands, v_offers, v_easy FROM (
                SELECT j.seq, c.key,
                       j.task = ANY (v_known) AND j.use_keys <@ v_locked AND array_to_string(j.use_keys, ' ') !~ '(^| )r[0-9]'
                       AND (p_queues IS NULL OR p_queues = ARRAY[j.queue])
                       AND NOT EXISTS (SELECT 1 FROM headgate.paused x WHERE x.queue = j.queue) AS easy
                FROM unnest(v_round, v_offers) AS c (seq, key) JOIN headgate.jobs j ON j.seq = c.seq
                ORDER BY j.priority, j.due, j.seq
            ) AS o;
            v_direct := coalesce(v_easy AND cardinality(v_cands) <= v_wanted, false);
            IF v_direct THEN
                v_limited := true;
                v_needed := coalesce(headgate._keys_of(v_cands), '{}');
            ELSE
                PERFORM headgate._make_ready(coalesce(v_cands, '{}'), v_offers, at, p_ttl);
                v_offered := coalesce(cardinality(v_cands), 0);
                v_cands := '{}';
            END IF;
        ELSE
            v_offered := headgate._offer(v_touched, at, p_ttl);
        END IF;
    END IF;

    -- Claim in rounds, since refused jobs may let others be offered.
    WHILE v_wanted > 0 AND v_looks > 0 LOOP
        IF v_offered > 0 OR v_each OR v_cands IS NULL THEN
            SELECT r.seqs, r.spare, r.limited INTO v_cands, v_spare, v_limited
            FROM headgate._ready(p_queues, v_known, least(v_wanted, v_looks), v_left) AS r;
            wake := wake OR v_spare;
            v_needed := NULL;
        END IF;
        v_asked := least(v_wanted, v_looks);
        v_found := cardinality(v_cands);
        IF v_found = 0 THEN
            v_all := true;
            EXIT;
        END IF;
        v_looks := v_looks - v_found;
        v_limited := v_limited OR v_capped;
        v_each := false;
        IF NOT v_limited THEN
            v_round := v_cands;
        ELSE
            v_needed := coalesce(v_needed, headgate._keys_of(v_cands), '{}');
            IF NOT v_needed <@ v_locked THEN
                FOREACH v_seq IN ARRAY v_cands LOOP
                    v_keys := ARRAY(SELECT k FROM unnest(headgate._keys_of(ARRAY[v_seq])) AS k WHERE k <> ALL (v_locked));
                    IF cardinality(v_keys) > 0 THEN
                        IF headgate._try_keys(v_keys) THEN
                            v_locked := v_locked || v_keys;
                        ELSE
                            v_left := v_left || v_seq;
                            v_cands := array_remove(v_cands, v_seq);
                        END IF;
                    END IF;
                END LOOP;
            END IF;
            -- Newcomers arrive first; who has no room stands in line now.
            v_round := ARRAY(SELECT j.seq FROM headgate.jobs j WHERE j.seq = ANY (v_cands) AND j.fresh AND j.task = ANY (v_known) ORDER BY j.seq);
            IF cardinality(v_round) > 0 THEN
                v_touched := headgate._arrive(v_round, at, '{}');
                v_cands := ARRAY(SELECT c.seq FROM unnest(v_cands) WITH ORDINALITY AS c (seq, n) JOIN headgate.jobs j ON j.seq = c.seq
                                 WHERE j.state = 'ready' ORDER BY c.n);
            ELSE
                v_touched := '{}';
            END IF;
            SELECT c.started, v_touched || c.touched, v_unknown || c.unknown INTO v_round, v_touched, v_unknown
            FROM headgate._claim(v_cands, v_needed, CASE WHEN v_direct THEN v_offers END, v_known, p_worker, at, p_patience) AS c;
        END IF;
        IF cardinality(v_round) > 0 THEN
            WITH begun AS (
                UPDATE headgate.jobs j
                SET state = 'running', worker = p_worker, attempt = j.attempt + 1, tries = j.tries + 1, started_at = at,
                    ended_at = NULL, outcome = NULL, error = NULL, result = NULL, waiting_on = NULL, offered_by = NULL, units = 0, set_aside = false,
                    fresh = false
                FROM unnest(v_round) WITH ORDINALITY AS r (seq, n) WHERE j.seq = r.seq
                RETURNING r.n, j.id, j.attempt, j.task, j.queue, j.args, j.tenant, j.priority, j.tries, j.retry, j.timeout, j.metadata,
                          j.enqueued_at, j.progress
            )
            SELECT array_agg(x.id) AS ids, array_agg(x.attempt) AS numbers, array_agg(x.task) AS tasks, array_agg(x.queue) AS queues,
                   array_agg(x.args) AS args, array_agg(x.tenant) AS tenants, array_agg(x.priority) AS priorities,
                   array_agg(x.tries) AS tries, array_agg(x.retry) AS retries, array_agg(x.timeout) AS timeouts,
                   array_agg(x.metadata) AS metadatas, array_agg(x.enqueued_at) AS enqueued, array_agg(x.progress) AS progresses
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
        v_direct := false;
        v_offered := 0;
        IF v_limited THEN
            v_offered := headgate._offer(v_touched, at, p_ttl);
        END IF;
        v_cands := NULL;
        v_all := v_offered = 0 AND v_found < v_asked;
        EXIT WHEN v_all;
    END LOOP;
    more := (v_wanted > 0 AND NOT v_all) OR cardinality(v_left) > 0;
    set_aside := ARRAY(SELECT u.task FROM unnest(v_unknown) WITH ORDINALITY AS u (task, n) GROUP BY u.task ORDER BY min(u.n));
    wake := wake OR v_offered > 0 OR cardinality(v_left) > 0;

    cancelling := headgate._cancelling(p_worker);
    next_due := headgate._next_due();
    again := NOT headgate.wake(wake, ended, p_by);
    IF p_sole AND p_want > 0 THEN
        UPDATE headgate.listeners l SET work = v_wanted > 0 WHERE l.id = p_by AND l.work <> (v_wanted > 0);
        more := more OR (FOUND AND v_wanted > 0);
    END IF;
END $$;
