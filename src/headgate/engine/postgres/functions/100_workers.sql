-- Workers and their leases.

-- Begin a worker's lease; returns now. What the same id ran before is lost.
-- Locks: rules (1), workers (2), its jobs in order (3), their keys (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.register(p_id text, p_tasks text[], p_queues text[], p_lease bigint, p_host text,
    p_pid bigint,
                                             p_concurrency integer, p_now bigint, p_ttl bigint, p_keep bigint[],
                                                 p_by text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now bigint := headgate._now(p_now);
BEGIN
    PERFORM headgate._hold_rules();
    PERFORM 1 FROM headgate.workers w WHERE w.id = p_id FOR UPDATE;
    IF FOUND THEN
        PERFORM headgate._end_all(p_id, 'l', 'the worker''s lease lapsed while it ran this job', v_now, p_ttl, p_keep,
            p_by);
    END IF;
    INSERT INTO headgate.workers (id, tasks, queues, lease, host, pid, concurrency, registered_at, lease_until)
    VALUES (p_id, p_tasks, p_queues, p_lease, p_host, p_pid, p_concurrency, v_now, v_now + p_lease)
    ON CONFLICT (id) DO UPDATE
    SET tasks = excluded.tasks, queues = excluded.queues, lease = excluded.lease, host = excluded.host,
        pid = excluded.pid,
        concurrency = excluded.concurrency, registered_at = excluded.registered_at, lease_until = excluded.lease_until;
    RETURN v_now;
END $$;

-- Renew a lease; returns now and the jobs for which a cancel was asked, or nothing if the lease has lapsed.
-- Locks: workers (2).   Reads: live_cancelling.
CREATE OR REPLACE FUNCTION headgate.heartbeat(p_id text, p_now bigint, OUT beat_at bigint, OUT cancelling text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := headgate._now(p_now);
BEGIN
    UPDATE headgate.workers w SET lease_until = v_now + w.lease WHERE w.id = p_id AND w.lease_until > v_now;
    IF FOUND THEN
        beat_at := v_now;
        cancelling := headgate._cancelling(p_id);
    END IF;
END $$;

-- Only running jobs can have been asked for.   Reads: live_cancelling.
CREATE OR REPLACE FUNCTION headgate._cancelling(p_worker text) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg(j.id) FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
        WHERE l.worker = p_worker AND l.cancel_requested
    );
END $$;

-- End a lease; attempts still running under it are released, uncounted. Returns whether anything became ready or ended.
-- Locks: rules (1), workers (2), its jobs in order (3), their keys (4), waiters (5).
CREATE OR REPLACE FUNCTION headgate.retire(p_id text, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text)
    RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_any boolean;
BEGIN
    PERFORM headgate._hold_rules();
    PERFORM 1 FROM headgate.workers w WHERE w.id = p_id FOR UPDATE;
    v_any := headgate._end_all(p_id, 'r', NULL, headgate._now(p_now), p_ttl, p_keep, p_by);
    DELETE FROM headgate.workers w WHERE w.id = p_id;
    RETURN v_any;
END $$;

-- All attempts of a worker end the same way; returns whether there were any. The caller holds the worker's row.
CREATE OR REPLACE FUNCTION headgate._end_all(p_id text, p_kind text, p_text text, p_now bigint, p_ttl bigint,
    p_keep bigint[], p_by text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_seqs bigint[] := ARRAY(
        SELECT j.seq FROM headgate.live j WHERE j.state = 'running' AND j.worker = p_id ORDER BY j.seq FOR UPDATE);
    v_size integer[] := ARRAY[cardinality(v_seqs)];
BEGIN
    IF cardinality(v_seqs) = 0 THEN
        RETURN false;
    END IF;
    PERFORM headgate._lock_keys(headgate._keys_of(v_seqs));
    PERFORM headgate._offer(headgate._end_each(
        v_seqs, array_fill(p_kind, v_size), array_fill(p_text, v_size), array_fill(NULL::bigint, v_size), p_now,
            p_keep), p_now, p_ttl);
    PERFORM headgate.wake(true, true, p_by);
    RETURN true;
END $$;

-- Attempts end one after the other, each giving back and arriving anew before the next; returns the touched keys.
CREATE OR REPLACE FUNCTION headgate._end_each(p_seqs bigint[], p_kinds text[], p_texts text[], p_times bigint[],
    p_now bigint,
                                              p_keep bigint[], p_touched text[] DEFAULT '{}') RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_touched text[] := p_touched;
    v_back    bigint[];
BEGIN
    FOR i IN 1 .. cardinality(p_seqs) LOOP
        v_touched := v_touched || headgate._give_back(p_seqs[i : i]);
        v_back := headgate._settle(p_seqs[i : i], p_kinds[i : i], p_texts[i : i], p_times[i : i], p_now, p_keep);
        IF cardinality(v_back) > 0 THEN
            v_touched := headgate._arrive(v_back, p_now, v_touched);
        END IF;
    END LOOP;
    RETURN v_touched;
END $$;

-- When a sweep will next have work (retention aside: it can wait for any sweep).   Reads: the first entry of each
-- index.
CREATE OR REPLACE FUNCTION headgate._next_due() RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT least((SELECT min(j.due) FROM headgate.live j WHERE j.state = 'scheduled'),
                 (SELECT min(t.at) FROM headgate.timers t),
                 (SELECT min(w.lease_until) FROM headgate.workers w),
                 (SELECT min(h.expires_at) FROM headgate.holders h WHERE h.expires_at IS NOT NULL),
                 (SELECT min(o.until) FROM headgate.overrides o WHERE o.until IS NOT NULL))
$$;

-- Both that a worker wants to know besides: which of its jobs were asked to be cancelled, and when to sweep. In FROM it
-- melts into the caller's plan.
CREATE OR REPLACE FUNCTION headgate._asked(p_worker text) RETURNS TABLE (cancelling text[], at bigint)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT array_agg(j.id) FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
            WHERE l.worker = p_worker AND l.cancel_requested),
           least((SELECT min(j.due) FROM headgate.live j WHERE j.state = 'scheduled'),
                 (SELECT min(t.at) FROM headgate.timers t),
                 (SELECT min(w.lease_until) FROM headgate.workers w),
                 (SELECT min(h.expires_at) FROM headgate.holders h WHERE h.expires_at IS NOT NULL),
                 (SELECT min(o.until) FROM headgate.overrides o WHERE o.until IS NOT NULL))
$$;
