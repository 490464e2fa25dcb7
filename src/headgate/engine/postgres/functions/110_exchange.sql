-- A worker's step: lock, settle and give back, let newcomers arrive, offer, claim, answer.
-- p_worker    the worker; p_jobs … p_times are its reports, at most one of each attempt besides progress (kind p)
-- p_number    the number of this message, larger than that of every message of the registration before (rule 13); NULL:
--             not numbered
-- p_want      how many jobs to claim, from p_queues in this order or from all (NULL)
-- p_suspects  whether suspects of a level above 1 may be among them, as far as the worker has room for them (rule 15)
-- p_threads   how many of the claimed jobs may be of tasks that the worker registered as threaded; NULL: any number
-- p_by        the listener of this process; p_sole: it is this worker's alone and wants no call while the worker is
--             full. When it begins to want one, `more` asks for another look: what was committed meanwhile called
--             no listener.
-- Answers with a row for each started job, in the order of `place`, and a last one (no id) about the step as a whole:
-- A job that is not `readable` was started without its keys, for the caller to end it. In the row of a started job
-- `next_due` is the time at which that job was due, and `keys` are those that it needs itself.
-- `leased` is false, and nothing was done, when the lease has lapsed; so is it with `last`, the number of the worker's
-- last message, when this one came too late. `refused` are positions in p_jobs. `parked` are the keys that refused jobs
-- which were to be started, one for each.
-- Locks: rules (1), the worker (2), reported jobs in order and ready ones (3), keys (4), waiters (5), keys
-- (6).
-- Reads: jobs_id, live by primary key, live_ready, live_aside, live_suspects, live_waiting, live_offered,
-- live_cancelling.
CREATE OR REPLACE FUNCTION headgate.exchange(
    p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[], p_texts text[], p_times bigint[],
    p_want integer, p_queues text[], p_now bigint, p_patience integer, p_ttl bigint, p_keep bigint[], p_by text,
    p_sole boolean, p_number bigint, p_suspects boolean, p_threads integer)
RETURNS TABLE (
    place bigint, id text, number integer, task text, queue text, args text, tenant text, priority smallint,
    tries integer, retry text, timeout bigint, metadata text, enqueued bigint, progress text,
    at bigint, leased boolean, refused integer[], cancelling text[], next_due bigint, more boolean, wake boolean,
    ended boolean, again boolean, set_aside text[], suspicion integer, last bigint, readable boolean,
    headers text, parked text[], keys text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    c_newcomers CONSTANT integer := 16;
    v_worker  record;
    v_end     record;          -- what became of the reported attempts
    v_ready   record;          -- ready jobs that may be claimed
    v_offer   record;          -- waiters that are offered room, which is not written yet
    v_next    record;          -- what of both is claimed now
    v_claim   record;
    v_told    record;
    v_seqs    bigint[];        -- the reported jobs
    v_each    boolean := false;  -- some of them may come back at once
    v_touched text[] := '{}';
    v_seen    text[] := '{}';  -- keys that were touched before
    v_keys    text[] := '{}';  -- keys to lock, then those that are locked
    v_left    bigint[] := '{}';
    v_unknown text[] := '{}';
    v_parked  text[] := '{}';
    v_new     bigint[] := '{}';  -- newcomers that arrive in this step
    v_threads integer := CASE WHEN p_threads < p_want THEN greatest(0, p_threads) END;  -- NULL: enough for all it wants
    v_sync    integer;         -- how many of what is claimed now need a thread
    v_began   integer;         -- how many of these began
    v_short   boolean := false;  -- there are fewer threads than they need
    v_wanted  integer := p_want;
    v_looks   integer := p_want + {look_more};
    v_asked   integer;
    v_anew    boolean;         -- the ready jobs are to be found anew
    v_all     boolean := false;
    v_expired boolean := false;  -- jobs that should have been started by now ended
BEGIN
    -- lock: the rules, the worker, what it reports of
    PERFORM pg_advisory_xact_lock_shared(1212629332, {lock});  -- as _hold_rules does
    at := headgate._now(p_now);
    -- Writing the number holds the worker's row: an older message that waits for it here finds the newer number then,
    -- and one that got here first has taken effect whole before the newer one goes on.
    UPDATE headgate.workers x SET number = coalesce(p_number, x.number) FROM headgate._lines() AS l
    WHERE x.id = p_worker AND x.lease_until > at AND x.number < coalesce(p_number, x.number + 1)
    RETURNING x.tasks, x.threaded, x.concurrency, EXISTS (SELECT 1 FROM headgate.rechecks) AS look, l.* INTO v_worker;
    leased := FOUND;
    IF v_worker.threaded = '{}' THEN
        v_threads := NULL;
    END IF;
    IF NOT leased THEN
        SELECT x.number INTO last FROM headgate.workers x WHERE x.id = p_worker AND x.lease_until > at;
        RETURN NEXT;
        RETURN;
    END IF;
    ended := cardinality(p_jobs) > 0;
    wake := false;
    IF ended AND NOT 's' = ALL (p_kinds) THEN
        v_each := p_kinds && ARRAY['r', 't', 'w'] OR EXISTS (
            SELECT 1 FROM unnest(p_kinds, p_times) AS r (kind, pause) WHERE r.kind IN ('f', 'z') AND r.pause <= 0);
        wake := v_each OR p_kinds && ARRAY['f', 'z'];
        v_seqs := headgate._seqs_of(p_jobs);
        PERFORM headgate._report(p_worker, v_seqs, p_attempts, p_kinds, p_texts);
    END IF;

    -- settle, give back: without their keys, since no other step touches the holders of a job whose row is held
    IF ended AND NOT v_each THEN
        v_end := headgate._end(p_worker, p_jobs, p_attempts, v_seqs, p_kinds, p_texts, p_times, at, p_keep);
        v_touched := v_end.touched;
    END IF;

    -- lock: all keys that this step will need, as far as it can see, at once
    IF v_each THEN
        v_keys := headgate._keys_of(v_seqs);
    END IF;
    IF v_worker.newcomers THEN
        -- (Before what is ready is locked: some of it may leave for them.)
        v_new := headgate._newcomers(p_queues, p_want + c_newcomers);
        v_keys := v_keys || headgate._keys_of(v_new);
    END IF;
    IF v_wanted > 0 THEN
        v_ready := headgate._ready(p_queues, v_worker.tasks, v_worker.threaded, v_threads, v_wanted, '{}', p_worker,
                                   v_worker.concurrency, p_suspects, at, v_worker.aside, v_worker.paused,
                                   v_worker.capped, v_worker.suspects);
        IF v_ready.limited THEN
            v_keys := v_keys || headgate._keys_of(v_ready.seqs);
        END IF;
        IF cardinality(v_touched) > cardinality(p_jobs) THEN  -- they had several: so will those that are offered them
            v_keys := v_keys || headgate._next_keys(v_touched);
        END IF;
        IF v_worker.look THEN
            -- Also where slots came back: a newcomer on an idle key may come before the waiters of these. Not many more
            -- than there are places for: the rest is for others, at this very moment.
            v_touched := v_touched || headgate._checks(v_wanted, p_queues);
        END IF;
    END IF;
    v_keys := v_keys || v_touched;
    IF cardinality(v_keys) > 0 THEN
        PERFORM headgate._lock_keys(v_keys);
        at := headgate._now(p_now);  -- what starts now, and what is spent, is booked after the wait
    END IF;
    IF v_each THEN
        v_end := headgate._end_each(p_worker, p_jobs, p_attempts, v_seqs, p_kinds, p_texts, p_times, at, p_keep,
                                    v_touched);
        v_touched := v_end.touched;
    END IF;
    IF v_new <> '{}' THEN
        v_touched := headgate._arrive(v_new, at, p_keep, v_touched, false);
        wake := true;
    END IF;

    -- offer, claim: in rounds, since refused jobs may let others be offered
    v_offer := headgate._next(v_touched, at, v_worker.tasks);
    v_anew := v_each OR v_new <> '{}';
    WHILE v_wanted > 0 AND v_looks > 0 LOOP
        v_asked := least(v_wanted, v_looks);
        IF cardinality(v_offer.seqs) > 0 AND (v_offer.suspects OR v_worker.suspects) THEN
            -- Which suspects the worker takes on is decided among all that is ready.
            PERFORM headgate._make_ready(v_offer.seqs, v_offer.keys, at, p_ttl);
            v_offer.seqs := '{}';
            v_anew := true;
            wake := true;
        END IF;
        IF v_anew THEN
            SELECT l.suspects, l.aside INTO v_worker.suspects, v_worker.aside FROM headgate._lines() AS l;
            v_ready := headgate._ready(p_queues, v_worker.tasks, v_worker.threaded, v_threads, v_asked, v_left,
                                       p_worker, v_worker.concurrency, p_suspects, at, v_worker.aside,
                                       v_worker.paused, v_worker.capped, v_worker.suspects);
        END IF;
        v_next := headgate._choose(v_ready.seqs, v_offer.seqs, v_offer.keys, p_queues, v_worker.paused, v_asked);
        IF cardinality(v_next.later) > 0 THEN
            PERFORM headgate._make_ready(v_next.later, v_next.later_keys, at, p_ttl);
        END IF;
        wake := wake OR v_ready.spare
            OR cardinality(v_next.seqs) < cardinality(v_ready.seqs) + cardinality(v_offer.seqs);
        v_looks := v_looks - cardinality(v_next.seqs);
        v_all := cardinality(v_next.seqs) < v_asked;
        IF v_anew AND v_ready.limited OR cardinality(v_offer.seqs) > 0 AND (v_worker.capped OR NOT v_offer.alone) THEN
            v_next := headgate._lock_more(v_next.seqs, v_next.keys, v_keys);
            PERFORM headgate._make_ready(v_next.offered, v_next.offered_by, at, p_ttl);
            v_keys := v_next.locked;
            v_left := v_left || v_next.skipped;
        END IF;
        IF v_threads IS NOT NULL THEN
            v_sync := headgate._count_of(v_next.seqs, v_worker.threaded);
            v_short := v_sync > v_threads;
        END IF;
        v_claim := headgate._claim(
            v_next.seqs, v_next.keys, v_ready.limited OR cardinality(v_offer.seqs) > 0 OR v_short,
            v_ready.seqs = '{}' AND v_offer.alone AND NOT v_worker.capped AND p_patience > 0 AND NOT v_short,
            v_worker.capped, v_worker.tasks, v_worker.threaded, CASE WHEN v_short THEN v_threads END, at, p_patience,
            p_ttl, p_keep);
        IF v_sync > 0 THEN
            v_began := headgate._count_of(v_claim.started, v_worker.threaded);
            v_threads := v_threads - v_began;
            -- Of those that lack a thread only as many were looked at as there were threads.
            v_all := v_all AND NOT (v_threads > 0 AND v_began < v_sync);
        END IF;
        IF cardinality(v_claim.started) > 0 THEN
            RETURN QUERY UPDATE headgate.live j
            SET state = 'running', worker = p_worker, attempt = j.attempt + 1, tries = j.tries + 1,
                started_at = exchange.at, error = NULL, waiting_on = NULL, offered_by = NULL, units = 0,
                set_aside = false, lacks_thread = false, start_by = NULL,
                unique_until = CASE WHEN j.attempt = 0 THEN exchange.at + o.unique_for ELSE j.unique_until END,
                key_free = j.key_free OR coalesce(o.updates AND j.unique_key IS NOT NULL, false)
            FROM unnest(v_claim.started) WITH ORDINALITY AS r (seq, n) JOIN headgate.jobs o ON o.seq = r.seq
            WHERE j.seq = r.seq
            RETURNING r.n - v_wanted, o.id, j.attempt, o.task, o.queue, o.args, o.tenant, o.priority, j.tries, o.retry,
                o.timeout, o.metadata, o.enqueued_at, j.progress, NULL::bigint, NULL::boolean, NULL::integer[],
                NULL::text[], j.due, NULL::boolean, NULL::boolean, NULL::boolean, NULL::boolean, NULL::text[],
                j.suspicion, NULL::bigint, j.use_keys IS NULL OR headgate._are_uses(j.use_keys, j.use_units),
                o.headers, NULL::text[], j.use_keys;
            v_wanted := v_wanted - cardinality(v_claim.started);
            IF v_worker.shared OR v_each THEN
                PERFORM headgate._advance(v_claim.started);
            END IF;
        END IF;
        -- While a job that is set aside was held here, another worker that has a use for it may have passed it over.
        wake := wake OR v_claim.aside;
        v_unknown := v_unknown || v_claim.unknown;
        v_parked := v_parked || v_claim.refused_by;
        v_expired := v_expired OR coalesce(v_claim.expired, false);
        v_seen := v_seen || v_touched;
        v_touched := v_claim.touched || CASE WHEN v_offer.cut THEN v_offer.keys END;
        v_offer := headgate._next(v_touched, at, v_worker.tasks);
        v_all := v_all AND v_offer.seqs = '{}';
        EXIT WHEN v_all;
        v_anew := true;
    END LOOP;
    IF cardinality(v_offer.seqs) > 0 THEN
        PERFORM headgate._make_ready(v_offer.seqs, v_offer.keys, at, p_ttl);
    END IF;
    PERFORM headgate._arm(v_seen || v_touched, at);

    -- answer
    IF ended THEN
        refused := v_end.refused;
    END IF;
    ended := ended OR v_expired OR v_new <> '{}';
    IF cardinality(v_unknown) > 0 THEN
        set_aside := ARRAY(SELECT u.task FROM unnest(v_unknown) WITH ORDINALITY AS u (task, n) GROUP BY u.task
            ORDER BY min(u.n));
    END IF;
    parked := v_parked;
    more := (v_wanted > 0 AND (NOT v_all OR v_worker.look AND EXISTS (SELECT 1 FROM headgate.rechecks)))
        OR cardinality(v_left) > 0;
    wake := wake OR cardinality(v_offer.seqs) > 0 OR cardinality(v_left) > 0;
    SELECT a.ids, d.at, l.work, l.busy, l.ended, l.own INTO v_told
    FROM (SELECT bool_or(x.work) FILTER (WHERE x.id IS DISTINCT FROM p_by) AS work,
                 bool_or(NOT x.work) FILTER (WHERE x.id IS DISTINCT FROM p_by) AS busy,
                 bool_or(x.ended) FILTER (WHERE x.id IS DISTINCT FROM p_by) AS ended,
                 bool_or(x.work) FILTER (WHERE x.id = p_by) AS own
          FROM headgate.listeners x) AS l
    CROSS JOIN headgate._cancelling(p_worker) AS a CROSS JOIN headgate._next_due() AS d;
    cancelling := v_told.ids;
    next_due := v_told.at;
    again := NOT headgate._ring(wake, ended, p_by, v_told.work, v_told.busy, v_told.ended);
    IF p_sole AND p_want > 0 AND v_told.own <> (v_wanted > 0) THEN
        UPDATE headgate.listeners x SET work = v_wanted > 0 WHERE x.id = p_by AND x.work <> (v_wanted > 0);
        more := more OR (FOUND AND v_wanted > 0);
    END IF;
    RETURN NEXT;
END $$;

-- How many of some jobs are of these tasks.   Reads: live by primary key.
CREATE OR REPLACE FUNCTION headgate._count_of(p_seqs bigint[], p_tasks text[]) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT count(*) FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.task = ANY (p_tasks));
END $$;
