-- Store new jobs, all or none.
-- p_ids … p_retentions   one entry per job; p_ats (points in time) beat p_delays
-- p_use_jobs, p_use_keys, p_use_units   the needs of jobs: position of the job, key, units, each job's in the order of rule 6
-- p_names, p_rates       the limits that are used, which must be declared: in the store or in p_declared
-- p_declared             limits to declare in the same step, as JSON
-- p_by                   the listener that knows already; p_notify: NULL asks who sleeps, true calls in any case, for a
--                        caller's transaction, whose end nobody here can see
-- `problem` says why nothing was stored: exists, rival, undeclared, kind; `subject` and `detail` about what.
-- `states` of the jobs, `rivals` the ids of unfinished jobs with the same unique key that stand for them.
-- Locks: new jobs in the order of (tenant, unique key, id) (3). Only where a job may be replaced or a limit is declared, and never
-- in a caller's transaction: rules (1), keys (4), waiters (5).   Reads: jobs_id, jobs_unique.
CREATE OR REPLACE FUNCTION headgate._enqueue(
    p_ids text[], p_tasks text[], p_queues text[], p_args text[], p_tenants text[], p_priorities smallint[],
    p_delays bigint[], p_ats bigint[], p_retries text[], p_timeouts bigint[], p_uniques text[], p_conflicts text[],
    p_metadatas text[], p_retentions bigint[], p_use_jobs integer[], p_use_keys text[], p_use_units bigint[],
    p_names text[], p_rates boolean[], p_declared json, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text, p_notify boolean,
    OUT problem text, OUT subject text, OUT detail text, OUT states text[], OUT rivals text[], OUT again boolean, OUT ended boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now      bigint := headgate._now(p_now);
    v_caps     boolean := headgate._any_caps();
    v_used     boolean := cardinality(p_use_jobs) > 0;
    v_seqs     bigint[];
    v_count    bigint;
    v_touched  text[] := '{}';
    v_replaced bigint[] := '{}';
    v_changes  boolean := false;
    v_fresh    bigint[];
    n          integer;
    rival      record;
BEGIN
    ended := false;
    IF p_declared IS NOT NULL AND headgate._differs(p_declared) THEN
        v_changes := true;
        PERFORM headgate._change_rules();
    ELSIF 'replace' = ANY (p_conflicts) AND p_notify IS NOT TRUE THEN
        PERFORM headgate._hold_rules();
    END IF;
    SELECT CASE WHEN k.kind IS NULL THEN 'undeclared' ELSE 'kind' END, u.name, k.kind INTO problem, subject, detail
    FROM unnest(p_names, p_rates) AS u (name, rate)
    LEFT JOIN LATERAL (
        SELECT coalesce((SELECT d ->> 'kind' FROM json_array_elements(p_declared) AS d WHERE d ->> 'name' = u.name),
                        (SELECT l.kind FROM headgate.limits l WHERE l.name = u.name)) AS kind
    ) AS k ON true
    WHERE k.kind IS NULL OR (k.kind = 'rate') <> u.rate LIMIT 1;
    IF problem IS NOT NULL THEN
        RETURN;
    END IF;
    v_seqs := ARRAY(SELECT nextval('headgate.arrivals') FROM generate_series(1, cardinality(p_ids)));
    rivals := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    BEGIN
        INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units, retry,
                                   timeout, metadata, retention, fresh)
        SELECT s.seq, r.id, r.task, r.queue, r.tenant, r.priority, d.due,
               CASE WHEN d.due <= v_now THEN 'ready' ELSE 'scheduled' END, v_now, r.args, u.keys, u.units, r.retry,
               r.timeout, r.metadata, r.retention,
               d.due <= v_now AND (u.keys IS NOT NULL OR v_caps AND (headgate._uses(r.task, r.queue, NULL, NULL, true)).keys IS NOT NULL)
        FROM unnest(p_ids, p_tasks, p_queues, p_args, p_tenants, p_priorities, p_delays, p_ats, p_retries, p_timeouts, p_uniques,
                    p_metadatas, p_retentions)
            WITH ORDINALITY AS r (id, task, queue, args, tenant, priority, delay, at, retry, timeout, unique_key, metadata, retention, n)
        JOIN unnest(v_seqs) WITH ORDINALITY AS s (seq, n) ON s.n = r.n
        LEFT JOIN (
            SELECT k.job, array_agg(k.key ORDER BY k.n) AS keys, array_agg(k.units ORDER BY k.n) AS units
            FROM unnest(p_use_jobs, p_use_keys, p_use_units) WITH ORDINALITY AS k (job, key, units, n) GROUP BY k.job
        ) AS u ON v_used AND u.job = r.n
        CROSS JOIN LATERAL (SELECT coalesce(r.at, v_now + r.delay) AS due) AS d
        WHERE r.unique_key IS NULL
        ORDER BY r.id
        ON CONFLICT (id) DO NOTHING;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count < (SELECT count(*) FROM unnest(p_uniques) AS u (key) WHERE u.key IS NULL) THEN
            RAISE EXCEPTION SQLSTATE 'HG002';
        END IF;
        IF v_count < cardinality(p_ids) THEN
            -- An id that is there already refuses the whole call, whatever its unique key would have said.
            IF EXISTS (SELECT 1 FROM unnest(p_ids, p_uniques) AS u (id, key) WHERE u.key IS NOT NULL
                       AND (EXISTS (SELECT 1 FROM headgate.jobs j WHERE j.id = u.id)))
               OR (SELECT count(DISTINCT u.id) < count(*) FROM unnest(p_ids) AS u (id)) THEN
                RAISE EXCEPTION SQLSTATE 'HG002';
            END IF;
            FOR n IN SELECT u.n FROM unnest(p_tenants, p_uniques) WITH ORDINALITY AS u (tenant, key, n)
                     WHERE u.key IS NOT NULL ORDER BY u.tenant COLLATE "C", u.key COLLATE "C", u.n LOOP
                LOOP
                    INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys,
                                               use_units, retry, timeout, unique_key, metadata, retention, fresh)
                    SELECT v_seqs[n], p_ids[n], p_tasks[n], p_queues[n], p_tenants[n], p_priorities[n], d.due,
                           CASE WHEN d.due <= v_now THEN 'ready' ELSE 'scheduled' END, v_now, p_args[n], u.keys, u.units,
                           p_retries[n], p_timeouts[n], p_uniques[n], p_metadatas[n], p_retentions[n],
                           d.due <= v_now AND (headgate._uses(p_tasks[n], p_queues[n], u.keys, u.units, v_caps)).keys IS NOT NULL
                    FROM (SELECT coalesce(p_ats[n], v_now + p_delays[n]) AS due) AS d,
                         (SELECT array_agg(k.key ORDER BY k.n) AS keys, array_agg(k.units ORDER BY k.n) AS units
                          FROM unnest(p_use_jobs, p_use_keys, p_use_units) WITH ORDINALITY AS k (job, key, units, n) WHERE k.job = n) AS u
                    ON CONFLICT DO NOTHING;
                    EXIT WHEN FOUND;
                    SELECT j.* INTO rival FROM headgate.jobs j
                    WHERE j.tenant = p_tenants[n] AND j.unique_key = p_uniques[n]
                      AND j.state IN ('scheduled', 'ready', 'waiting', 'running') FOR UPDATE;
                    IF NOT FOUND THEN
                        IF EXISTS (SELECT 1 FROM headgate.jobs j WHERE j.id = p_ids[n]) THEN
                            RAISE EXCEPTION SQLSTATE 'HG002';
                        END IF;
                        CONTINUE;  -- it ended meanwhile
                    END IF;
                    IF p_conflicts[n] = 'return' THEN
                        rivals[n] := rival.id;
                        EXIT;
                    END IF;
                    IF p_conflicts[n] = 'raise' OR rival.state = 'running' THEN
                        problem := 'rival';
                        subject := rival.id;
                        detail := rival.state || ' ' || p_uniques[n];
                        RAISE EXCEPTION SQLSTATE 'HG002';
                    END IF;
                    v_replaced := v_replaced || rival.seq;
                    v_touched := v_touched || array_remove(ARRAY[rival.offered_by, CASE WHEN rival.waiting_on LIKE 'r%' THEN rival.waiting_on END], NULL);
                    UPDATE headgate.jobs j
                    SET state = 'cancelled', ended_at = v_now, expires_at = v_now + coalesce(j.retention, p_keep[3]), outcome = NULL,
                        waiting_on = NULL, offered_by = NULL, units = 0, set_aside = false, fresh = false
                    WHERE j.seq = rival.seq;
                    ended := true;
                END LOOP;
            END LOOP;
        END IF;
    EXCEPTION WHEN SQLSTATE 'HG002' THEN
        IF problem IS NULL THEN
            problem := 'exists';
            SELECT u.id INTO subject FROM unnest(p_ids) WITH ORDINALITY AS u (id, n)
            WHERE EXISTS (SELECT 1 FROM headgate.jobs j WHERE j.id = u.id) OR u.id = ANY (p_ids[1 : u.n - 1])
            ORDER BY u.n LIMIT 1;
        END IF;
        RETURN;
    END;

    v_touched := v_touched || ARRAY(SELECT h.key FROM headgate.holders h WHERE h.job = ANY (v_replaced));
    IF p_notify AND cardinality(v_touched) > 0 THEN
        DELETE FROM headgate.holders h WHERE h.job = ANY (v_replaced);
        INSERT INTO headgate.rechecks (key) SELECT DISTINCT t.key FROM unnest(v_touched) AS t (key);
        v_touched := '{}';
    ELSIF v_changes OR cardinality(v_touched) > 0 THEN
        IF v_changes THEN
            v_touched := v_touched || headgate._declare(p_declared, v_now);
        END IF;
        v_fresh := ARRAY(SELECT j.seq FROM headgate.jobs j WHERE j.seq = ANY (v_seqs) AND j.state = 'ready' ORDER BY j.seq);
        PERFORM headgate._lock_keys(v_touched || headgate._keys_of(v_fresh));
        v_touched := v_touched || headgate._give_back(v_replaced);
        v_touched := headgate._arrive(v_fresh, v_now, v_touched);
    END IF;
    -- The state that each job got, before anybody is offered anything.
    SELECT array_agg(j.state ORDER BY u.n) INTO states
    FROM unnest(p_ids, rivals) WITH ORDINALITY AS u (id, rival, n) JOIN headgate.jobs j ON j.id = coalesce(u.rival, u.id);
    PERFORM headgate._offer(v_touched, v_now, p_ttl);
    IF p_notify THEN
        PERFORM pg_notify({channel}, 'w');
        again := false;
    ELSE
        again := NOT headgate.wake(true, ended, p_by);
    END IF;
END $$;

-- For any client in any language, inside its own transaction: SELECT headgate.enqueue('send', '{"to": "a@b.c"}');
-- The job is invisible until that transaction commits and gone if it rolls back. No limit is locked.
-- p_options   queue, tenant, priority (0-99), delay (seconds), at (timestamp with time zone), id, unique, on_conflict
--             (return, raise, replace), metadata, timeout (seconds), attempts, retry_delay (seconds), and
--             limits: [{"name": "customer", "key": "42", "units": 1, "tenant": ""}], which must be declared.
-- Returns the id of the job, or of the unfinished one with the same unique key.
CREATE OR REPLACE FUNCTION headgate.enqueue(p_task text, p_args json DEFAULT '{}', p_options jsonb DEFAULT '{}') RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    v_id     text := coalesce(p_options ->> 'id', replace(gen_random_uuid()::text, '-', ''));
    v_tenant text := coalesce(p_options ->> 'tenant', '');
    v_keys   text[];
    v_units  bigint[];
    v_names  text[];
    v_rates  boolean[];
    v_wrong  text;
    r        record;
BEGIN
    SELECT string_agg(o.name, ', ') INTO v_wrong FROM jsonb_object_keys(p_options) AS o (name)
    WHERE o.name NOT IN ('queue', 'tenant', 'priority', 'delay', 'at', 'id', 'unique', 'on_conflict', 'metadata', 'timeout',
                         'attempts', 'retry_delay', 'limits');
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'unknown options: %', v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF coalesce((p_options ->> 'priority')::integer, 50) NOT BETWEEN 0 AND 99 THEN
        RAISE EXCEPTION 'priority % is not between 0 (first) and 99', p_options ->> 'priority' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(k.key ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.units ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.name), array_agg(k.rate)
    INTO v_keys, v_units, v_names, v_rates
    FROM (
        SELECT t.name, t.rate, t.text, t.tenant, max(t.units) AS units,
               CASE WHEN t.rate THEN 'r' ELSE 'c' END || length(t.tenant) || ':' || t.tenant || t.text AS key
        FROM (
            SELECT u ->> 'name' AS name, coalesce((u ->> 'units')::bigint, 1) AS units, coalesce(u ->> 'tenant', v_tenant) AS tenant,
                   coalesce((SELECT l.kind = 'rate' FROM headgate.limits l WHERE l.name = u ->> 'name'), false) AS rate,
                   (u ->> 'name') || coalesce('=' || (u ->> 'key'), '') AS text
            FROM jsonb_array_elements(coalesce(p_options -> 'limits', '[]')) AS u
        ) AS t GROUP BY t.name, t.rate, t.text, t.tenant
    ) AS k;
    SELECT * INTO r FROM headgate._enqueue(
        ARRAY[v_id], ARRAY[p_task], ARRAY[coalesce(p_options ->> 'queue', 'default')], ARRAY[p_args::text], ARRAY[v_tenant],
        ARRAY[coalesce((p_options ->> 'priority')::smallint, 50::smallint)],
        ARRAY[round(coalesce((p_options ->> 'delay')::numeric, 0) * 1000000)::bigint],
        ARRAY[(extract(epoch FROM (p_options ->> 'at')::timestamptz) * 1000000)::bigint],
        ARRAY[format('[%s,%s,2.0,3600000000,0.0]', coalesce((p_options ->> 'attempts')::integer, 3),
                     round(coalesce((p_options ->> 'retry_delay')::numeric, 1) * 1000000))],
        ARRAY[round((p_options ->> 'timeout')::numeric * 1000000)::bigint], ARRAY[p_options ->> 'unique'],
        ARRAY[coalesce(p_options ->> 'on_conflict', 'return')], ARRAY[(p_options -> 'metadata')::text], ARRAY[NULL::bigint],
        array_fill(1, ARRAY[coalesce(cardinality(v_keys), 0)]), coalesce(v_keys, '{}'), coalesce(v_units, '{}'),
        coalesce(v_names, '{}'), coalesce(v_rates, '{}'), NULL, NULL, 10000000, ARRAY[86400000000, 1209600000000, 1209600000000],
        NULL, true);
    IF r.problem IN ('undeclared', 'kind') THEN
        RAISE EXCEPTION 'limit "%" is not declared; declare it in the app that runs the task', r.subject
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF r.problem IS NOT NULL THEN
        RAISE EXCEPTION 'job "%" exists already; nothing was enqueued', r.subject USING ERRCODE = 'unique_violation';
    END IF;
    RETURN coalesce(r.rivals[1], v_id);
END $$;

-- Move a periodic task's last tick from what was seen; false if somebody else did. Locks: ticks (2).
CREATE OR REPLACE FUNCTION headgate.tick(p_name text, p_seen bigint, p_at bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_seen IS NULL THEN
        INSERT INTO headgate.ticks (task, at) VALUES (p_name, p_at) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE headgate.ticks t SET at = p_at WHERE t.task = p_name AND t.at = p_seen;
    END IF;
    RETURN FOUND;
END $$;
