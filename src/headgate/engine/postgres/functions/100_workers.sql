-- Workers and their leases.

-- Begin a worker's lease; returns now. What the same id ran before is lost.
-- Locks: rules (1), workers (2), its jobs in order (3), their keys (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.register(p_id text, p_tasks text[], p_threaded text[], p_queues text[],
                                             p_lease bigint, p_host text, p_pid bigint, p_concurrency integer,
                                             p_now bigint, p_ttl bigint, p_keep bigint[], p_by text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now bigint;
BEGIN
    PERFORM headgate._hold_rules();
    PERFORM 1 FROM headgate.workers w WHERE w.id = p_id FOR UPDATE;
    v_now := headgate._now(p_now);
    PERFORM headgate._lose_workers(ARRAY[p_id], v_now, p_ttl, p_keep, p_by);
    INSERT INTO headgate.workers (id, tasks, threaded, queues, lease, host, pid, concurrency, registered_at, lease_until)
    VALUES (p_id, p_tasks, p_threaded, p_queues, p_lease, p_host, p_pid, p_concurrency, v_now, v_now + p_lease)
    ON CONFLICT (id) DO UPDATE
    SET tasks = excluded.tasks, threaded = excluded.threaded, queues = excluded.queues, lease = excluded.lease, host = excluded.host,
        pid = excluded.pid, concurrency = excluded.concurrency, registered_at = excluded.registered_at,
        lease_until = excluded.lease_until, number = 0;
    RETURN v_now;
END $$;

-- Workers are gone: their attempts are lost, those of each together, and their registrations end.
-- Locks: their jobs in order (3), keys (4), waiters (5). The caller holds the workers' rows, where there are any.
CREATE OR REPLACE FUNCTION headgate._lose_workers(p_ids text[], p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    OUT attempts integer, OUT failed text[], OUT tasks text[], OUT errors text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_seqs    bigint[] := ARRAY(
        SELECT j.seq FROM headgate.live j WHERE j.state = 'running' AND j.worker = ANY (p_ids) ORDER BY j.seq
        FOR UPDATE);
    v_touched text[] := '{}';
BEGIN
    attempts := cardinality(v_seqs);
    failed := '{}';
    tasks := '{}';
    errors := '{}';
    IF attempts > 0 THEN
        PERFORM headgate._lock_keys(headgate._keys_of(v_seqs));
        SELECT l.touched, l.failed, l.tasks, l.errors INTO v_touched, failed, tasks, errors
        FROM headgate._lose_each(p_ids, p_now, p_keep, '{}') AS l;
        PERFORM headgate._offer(v_touched, p_now, p_ttl);
        PERFORM headgate.wake(true, true, p_by);
    END IF;
    DELETE FROM headgate.workers w WHERE w.id = ANY (p_ids);
END $$;

-- One worker after the other.   The caller holds them, their jobs and all keys of these.
CREATE OR REPLACE FUNCTION headgate._lose_each(p_ids text[], p_now bigint, p_keep bigint[], p_touched text[],
    OUT touched text[], OUT failed text[], OUT tasks text[], OUT errors text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_id    text;
    v_seen  bigint;
    v_lease bigint;
    l       record;
BEGIN
    touched := p_touched;
    failed := '{}';
    tasks := '{}';
    errors := '{}';
    FOREACH v_id IN ARRAY p_ids LOOP
        SELECT w.lease_until - w.lease, w.lease INTO v_seen, v_lease FROM headgate.workers w WHERE w.id = v_id;
        -- It renews its lease three times in it, so that it was dead after half a lease without.
        SELECT * INTO l FROM headgate._lose(v_id, coalesce(v_seen, 0), least(p_now, coalesce(v_seen + v_lease / 2, 0)),
                                            p_now, p_keep, touched);
        touched := l.touched;
        failed := failed || l.failed;
        tasks := tasks || l.tasks;
        errors := errors || l.errors;
    END LOOP;
END $$;

-- The processes of these workers are gone: their leases end now, as if they had lapsed. Unknown ones are ignored.
-- Locks: rules (1), workers in order (2), their jobs in order (3), keys (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.report_lost(p_ids text[], p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    OUT attempts integer, OUT failed text[], OUT tasks text[], OUT errors text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_ids text[];
BEGIN
    PERFORM headgate._hold_rules();
    v_ids := ARRAY(SELECT w.id FROM headgate.workers w WHERE w.id = ANY (p_ids) ORDER BY w.id FOR UPDATE);
    SELECT l.attempts, l.failed, l.tasks, l.errors INTO attempts, failed, tasks, errors
    FROM headgate._lose_workers(ARRAY(SELECT u.id FROM unnest(p_ids) WITH ORDINALITY AS u (id, n)
                                      WHERE u.id = ANY (v_ids) GROUP BY u.id ORDER BY min(u.n)),
                                headgate._now(p_now), p_ttl, p_keep, p_by) AS l;
END $$;

-- After any doubt: take back what a worker runs and does not name, uncounted, and remember the number, so that no older
-- message changes anything when it arrives (rule 13).   p_jobs, p_attempts   the pairs that it names
-- `last` is the number of its last message: not below p_number, and nothing was done, when this one came too late.
-- `leased` is false, and nothing was done, when the lease has lapsed. `alive` are places in p_jobs.
-- Locks: rules (1), the worker (2), its jobs in order (3), their keys (4), waiters (5).   Reads: live_running, jobs.
CREATE OR REPLACE FUNCTION headgate.resume_worker(p_worker text, p_number bigint, p_jobs text[], p_attempts bigint[],
    p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    OUT at bigint, OUT leased boolean, OUT last bigint, OUT alive text[], OUT taken_back integer, OUT cancelling text[],
    OUT again boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_seqs bigint[];
BEGIN
    PERFORM headgate._hold_rules();
    SELECT w.lease_until > headgate._now(p_now), w.number INTO leased, last
    FROM headgate.workers w WHERE w.id = p_worker FOR NO KEY UPDATE;
    leased := coalesce(leased, false);
    IF NOT leased OR last >= p_number THEN
        RETURN;
    END IF;
    UPDATE headgate.workers w SET number = p_number WHERE w.id = p_worker;
    v_seqs := ARRAY(
        SELECT l.seq FROM headgate.live l WHERE l.state = 'running' AND l.worker = p_worker
          AND NOT EXISTS (SELECT 1 FROM unnest(p_jobs, p_attempts) AS k (id, attempt)
                          JOIN headgate.jobs j ON j.id = k.id WHERE j.seq = l.seq AND k.attempt = l.attempt)
        ORDER BY l.seq FOR UPDATE);
    taken_back := cardinality(v_seqs);
    IF taken_back > 0 THEN
        PERFORM headgate._lock_keys(headgate._keys_of(v_seqs));
    END IF;
    at := headgate._now(p_now);
    IF taken_back > 0 THEN
        PERFORM headgate._offer(headgate._take_back(v_seqs, NULL, NULL, at, p_keep, '{}'), at, p_ttl);
    END IF;
    alive := ARRAY(
        SELECT k.n::text FROM unnest(p_jobs, p_attempts) WITH ORDINALITY AS k (id, attempt, n)
        JOIN headgate.jobs j ON j.id = k.id JOIN headgate.live l ON l.seq = j.seq
        WHERE l.state || '' = 'running' AND l.worker || '' = p_worker AND l.attempt = k.attempt ORDER BY k.n);
    cancelling := (SELECT c.ids FROM headgate._cancelling(p_worker) AS c);
    again := NOT headgate.wake(taken_back > 0, taken_back > 0, p_by);
END $$;

-- Renew a lease; returns now and the jobs for which a cancel was asked, or nothing if the lease has lapsed.
-- p_done   what the worker adds to the history, as JSON; NULL: nothing
-- Locks: workers (2), rows of history (7).   Reads: live_cancelling.
CREATE OR REPLACE FUNCTION headgate.heartbeat(p_id text, p_done json, p_now bigint, OUT beat_at bigint,
                                              OUT cancelling text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := headgate._now(p_now);
BEGIN
    -- The time stays that of the call, should it wait for a message of the worker to be carried out: a lease is never
    -- longer than promised.
    UPDATE headgate.workers w SET lease_until = v_now + w.lease WHERE w.id = p_id AND w.lease_until > v_now;
    IF FOUND THEN
        beat_at := v_now;
        cancelling := (SELECT c.ids FROM headgate._cancelling(p_id) AS c);
        IF p_done IS NOT NULL THEN
            PERFORM headgate._add_done(p_done);
        END IF;
    END IF;
END $$;

-- The jobs of a worker for which a cancel was asked; only running ones can be.   Reads: live_cancelling.
CREATE OR REPLACE FUNCTION headgate._cancelling(p_worker text) RETURNS TABLE (ids text[])
LANGUAGE sql STABLE AS $$
    SELECT array_agg(j.id) FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
    WHERE l.worker = p_worker AND l.cancel_requested
$$;

-- End a lease; attempts still running under it are released, uncounted. Returns whether anything became ready or ended.
-- Locks: rules (1), workers (2), its jobs in order (3), their keys (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.retire(p_id text, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text)
    RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_seqs bigint[];
    v_now  bigint;
BEGIN
    PERFORM headgate._hold_rules();
    PERFORM 1 FROM headgate.workers w WHERE w.id = p_id FOR UPDATE;
    v_seqs := ARRAY(
        SELECT j.seq FROM headgate.live j WHERE j.state = 'running' AND j.worker = p_id ORDER BY j.seq FOR UPDATE);
    IF cardinality(v_seqs) > 0 THEN
        PERFORM headgate._lock_keys(headgate._keys_of(v_seqs));
        v_now := headgate._now(p_now);
        PERFORM headgate._offer(headgate._take_back(v_seqs, NULL, NULL, v_now, p_keep, '{}'), v_now, p_ttl);
        PERFORM headgate.wake(true, true, p_by);
    END IF;
    DELETE FROM headgate.workers w WHERE w.id = p_id;
    RETURN cardinality(v_seqs) > 0;
END $$;

-- When a sweep will next have work (retention aside: it can wait for any sweep).   Reads: the first entry of each
-- index. In FROM it melts into the caller's plan, as _cancelling does.
CREATE OR REPLACE FUNCTION headgate._next_due() RETURNS TABLE (at bigint)
LANGUAGE sql STABLE AS $$
    SELECT least((SELECT min(j.due) FROM headgate.live j WHERE j.state = 'scheduled'),
                 (SELECT min(t.at) FROM headgate.timers t),
                 (SELECT min(w.lease_until) FROM headgate.workers w),
                 (SELECT min(h.expires_at) FROM headgate.holders h WHERE h.expires_at IS NOT NULL),
                 (SELECT min(o.until) FROM headgate.overrides o WHERE o.until IS NOT NULL),
                 (SELECT min(j.start_by) FROM headgate.live j WHERE j.start_by IS NOT NULL),
                 (SELECT min(s.until) FROM headgate.shares s WHERE s.until IS NOT NULL),
                 (SELECT min(g.wide_at) FROM headgate.gates g))
$$;
