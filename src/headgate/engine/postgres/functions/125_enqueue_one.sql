-- Store one job that needs nothing, or one key: what _enqueue does for most calls, by few and simple statements.
-- p_key, p_units, p_name, p_number   the key, how much of it, its limit, and the number that it brings, if there is
--                          one; p_at (an instant) beats p_delay
-- p_share, p_by_time, p_start_by, p_start_within, p_by, p_notify   see _enqueue, which also takes those that a limit may
--                          refuse or turn away
-- `problem`: exists, undeclared, kind, full (see _enqueue).
-- Locks: the new id (0).   Reads: jobs_id, limits, limits_cap, limits_policy, overrides_cap; what _last_tag reads.
CREATE OR REPLACE FUNCTION headgate._enqueue_one(
    p_id text, p_task text, p_queue text, p_args text, p_tenant text, p_priority smallint, p_delay bigint, p_at bigint,
    p_retry text, p_timeout bigint, p_metadata text, p_headers text, p_retention bigint, p_key text, p_units bigint,
    p_name text, p_number bigint, p_share text, p_by_time boolean, p_start_by bigint, p_start_within bigint,
    p_now bigint, p_by text, p_notify boolean,
    OUT problem text, OUT subject text, OUT detail text, OUT state text, OUT again boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now    bigint := headgate._now(p_now);
    v_due    bigint := coalesce(p_at, v_now + p_delay);
    v_is_due boolean := v_due <= v_now;
    v_first  text := p_key;
    v_line   boolean;  -- it stands in the line of its first key at once
    v_tag    bigint := 0;
    l        record;
BEGIN
    SELECT EXISTS (SELECT 1 FROM headgate.limits m WHERE m.cap AND m.kind <> 'rate')
               OR EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.cap) AS caps,
           EXISTS (SELECT 1 FROM headgate.limits m WHERE m.policy) AS policies,
           CASE WHEN p_key IS NOT NULL THEN (SELECT m.kind FROM headgate.limits m WHERE m.name = p_name) END AS kind,
           p_number IS NOT NULL AND EXISTS (SELECT 1 FROM headgate.limits m WHERE m.name = p_name AND m.per_key) AS brings,
           bool_or(x.work) AS work, bool_or(NOT x.work) AS busy
    INTO l FROM headgate.listeners x WHERE x.id IS DISTINCT FROM p_by;
    IF p_key IS NOT NULL AND (l.kind = 'rate') IS DISTINCT FROM (p_key LIKE 'r%') THEN
        problem := CASE WHEN l.kind IS NULL THEN 'undeclared' ELSE 'kind' END;
        detail := l.kind;
        RETURN;
    END IF;
    IF l.brings OR (l.policies AND headgate._has_policy(p_task, p_queue, ARRAY[p_key], true)) THEN
        SELECT e.problem, e.subject, e.detail, e.states[1], e.again INTO problem, subject, detail, state, again
        FROM headgate._enqueue(
            ARRAY[p_id], ARRAY[p_task], ARRAY[p_queue], ARRAY[p_args], ARRAY[p_tenant], ARRAY[p_priority], ARRAY[p_delay],
            ARRAY[p_at], ARRAY[p_retry], ARRAY[p_timeout], ARRAY[NULL::text], ARRAY['return'], ARRAY[p_metadata],
            ARRAY[p_headers], ARRAY[p_retention], '{}', array_remove(ARRAY[p_key], NULL), array_remove(ARRAY[p_units], NULL),
            '{}', '{}', NULL, p_now, NULL, NULL, p_by, p_notify,
            json_build_object(
                'numbers', CASE WHEN p_number IS NOT NULL THEN json_build_array(p_number) END,
                'jobs', json_build_array(json_build_object(
                    'share', p_share, 'by_time', p_by_time, 'start_by', p_start_by, 'start_within', p_start_within)))) AS e;
        RETURN;
    END IF;
    IF p_share IS NOT NULL AND v_is_due THEN
        v_tag := headgate._last_tag(p_queue, p_priority, p_share) + headgate._step(p_queue, p_share, p_by_time);
    END IF;
    IF l.caps THEN
        SELECT u.keys[1] INTO v_first
        FROM headgate._uses(p_task, p_queue, array_remove(ARRAY[p_key], NULL), array_remove(ARRAY[p_units], NULL), true)
            AS u;
    END IF;
    v_line := v_is_due AND v_first IS NOT NULL;
    WITH stored AS (
        INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units,
                                   retry, timeout, metadata, headers, retention, use_numbers, share, by_time)
        VALUES (nextval('headgate.arrivals'), p_id, p_task, p_queue, p_tenant, p_priority, v_now, p_args,
                CASE WHEN p_key IS NOT NULL THEN ARRAY[p_key] END,
                CASE WHEN p_key IS NOT NULL THEN ARRAY[p_units] END, p_retry, p_timeout, p_metadata, p_headers,
                p_retention, CASE WHEN p_number IS NOT NULL THEN ARRAY[p_number] END, p_share, p_by_time)
        ON CONFLICT (id) DO NOTHING RETURNING seq, use_keys, use_units
    )
    INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, unseen, waiting_on,
                               units, refusals, share, tag, start_by)
    SELECT s.seq, p_task, p_queue, p_tenant, p_priority, v_due,
           CASE WHEN NOT v_is_due THEN 'scheduled' WHEN v_line THEN 'waiting' ELSE 'ready' END,
           s.use_keys, s.use_units, v_line, CASE WHEN v_line THEN v_first END,
           CASE WHEN NOT v_line THEN 0 WHEN v_first = p_key THEN p_units ELSE 1 END, CASE WHEN v_line THEN 0 END,
           p_share, v_tag, coalesce(p_start_by, v_now + p_start_within)
    FROM stored s;
    IF NOT FOUND THEN
        problem := 'exists';
        RETURN;
    END IF;
    IF v_line THEN
        INSERT INTO headgate.rechecks (key, queue, priority, tag)
        VALUES (v_first, CASE WHEN v_tag > 0 THEN p_queue END, CASE WHEN v_tag > 0 THEN p_priority END, nullif(v_tag, 0));
    END IF;
    state := CASE WHEN v_is_due THEN 'ready' ELSE 'scheduled' END;
    IF p_notify THEN
        PERFORM pg_notify({channel}, 'w');
        again := false;
    ELSE
        again := NOT headgate._ring(true, false, p_by, l.work, l.busy, false);
    END IF;
END $$;
