-- Store one job that needs nothing, or one slot of one key: what _enqueue does for most calls, by few and simple
-- statements.
-- p_key, p_name   the key and its limit, if there is one; p_at (a point in time) beats p_delay
-- p_by            the listener that knows already
-- `problem`: exists, undeclared, kind (see _enqueue), or `long`: some task or queue has a cap, ask _enqueue.
-- Locks: the new id (0).   Reads: jobs_id, limits, limits_cap, overrides_cap.
CREATE OR REPLACE FUNCTION headgate._enqueue_one(
    p_id text, p_task text, p_queue text, p_args text, p_tenant text, p_priority smallint, p_delay bigint, p_at bigint,
    p_retry text, p_timeout bigint, p_metadata text, p_retention bigint, p_key text, p_name text, p_now bigint,
    p_by text,
    OUT problem text, OUT detail text, OUT state text, OUT again boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now bigint := headgate._now(p_now);
    v_due bigint := coalesce(p_at, v_now + p_delay);
    v_now_due boolean := v_due <= v_now;
    l     record;
BEGIN
    SELECT EXISTS (SELECT 1 FROM headgate.limits m WHERE m.cap AND m.kind <> 'rate')
               OR EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.cap) AS caps,
           CASE WHEN p_key IS NOT NULL THEN (SELECT m.kind FROM headgate.limits m WHERE m.name = p_name) END AS kind,
           bool_or(x.work) AS work, bool_or(NOT x.work) AS busy
    INTO l FROM headgate.listeners x WHERE x.id IS DISTINCT FROM p_by;
    problem := CASE WHEN l.caps THEN 'long' WHEN p_key IS NULL THEN NULL WHEN l.kind IS NULL THEN 'undeclared'
                    WHEN l.kind = 'rate' THEN 'kind' END;
    IF problem IS NOT NULL THEN
        detail := l.kind;
        RETURN;
    END IF;
    WITH stored AS (
        INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units,
                                   retry, timeout, metadata, retention)
        VALUES (nextval('headgate.arrivals'), p_id, p_task, p_queue, p_tenant, p_priority, v_now, p_args,
                CASE WHEN p_key IS NOT NULL THEN ARRAY[p_key] END,
                CASE WHEN p_key IS NOT NULL THEN ARRAY[1::bigint] END, p_retry, p_timeout, p_metadata, p_retention)
        ON CONFLICT (id) DO NOTHING RETURNING seq, use_keys, use_units
    )
    INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, unseen, waiting_on,
                               units, refusals)
    SELECT s.seq, p_task, p_queue, p_tenant, p_priority, v_due,
           CASE WHEN NOT v_now_due THEN 'scheduled' WHEN p_key IS NULL THEN 'ready' ELSE 'waiting' END,
           s.use_keys, s.use_units, v_now_due AND p_key IS NOT NULL, CASE WHEN v_now_due THEN p_key END,
           CASE WHEN v_now_due AND p_key IS NOT NULL THEN 1 ELSE 0 END,
           CASE WHEN v_now_due AND p_key IS NOT NULL THEN 0 END
    FROM stored s;
    IF NOT FOUND THEN
        problem := 'exists';
        RETURN;
    END IF;
    IF p_key IS NOT NULL AND v_now_due THEN
        INSERT INTO headgate.rechecks (key) VALUES (p_key);
    END IF;
    state := CASE WHEN v_now_due THEN 'ready' ELSE 'scheduled' END;
    again := NOT headgate._ring(true, false, p_by, l.work, l.busy, false);
END $$;
