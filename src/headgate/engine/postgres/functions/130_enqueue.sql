-- Store new jobs, all or none.
-- p_ids … p_retentions   one entry per job; p_ats (points in time) beat p_delays. But for p_ids a single entry stands
--                        for all, unless there are unique keys.
-- p_use_jobs, p_use_keys, p_use_units   the needs of jobs: position of the job, key, units, each job's in the order of
--                        rule 6; without p_use_jobs one for each job
-- p_names, p_rates       the limits that are used, which must be declared: in the store or in p_declared
-- p_declared             limits to declare in the same step, as JSON
-- p_by                   the listener that knows already; p_notify: NULL asks who sleeps, true calls in any case, for a
--                        caller's transaction, whose end nobody here can see
-- `problem` says why nothing was stored: exists, rival, undeclared, kind; `subject` and `detail` about what.
-- `states` of the jobs, or one for all of them; `rivals` the ids of unfinished jobs with the same unique key that stand
-- for them, if any.
-- Locks: unique keys and new ids, each in order (0). Where a job is replaced: its row in `live` (3); then, and where a limit is
-- declared, but never in a caller's transaction: rules (1), keys (4), waiters (5).   Reads: jobs_id, live_unique.
CREATE OR REPLACE FUNCTION headgate._enqueue(
    p_ids text[], p_tasks text[], p_queues text[], p_args text[], p_tenants text[], p_priorities smallint[],
    p_delays bigint[], p_ats bigint[], p_retries text[], p_timeouts bigint[], p_uniques text[], p_conflicts text[],
    p_metadatas text[], p_retentions bigint[], p_use_jobs integer[], p_use_keys text[], p_use_units bigint[],
    p_names text[], p_rates boolean[], p_declared json, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
        p_notify boolean,
    OUT problem text, OUT subject text, OUT detail text, OUT states text[], OUT rivals text[], OUT again boolean,
        OUT ended boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now      bigint := headgate._now(p_now);
    v_caps     boolean := headgate._any_caps();
    v_each     boolean := cardinality(p_use_jobs) = 0 AND cardinality(p_use_keys) > 0;
    v_changes  boolean := p_declared IS NOT NULL AND headgate._differs(p_declared);
    v_seqs     bigint[];
    v_count    bigint;
    v_ousts    bigint[];
    v_ousted   bigint[] := '{}';
    v_there    bigint[] := '{}';
    v_touched  text[] := '{}';
    v_fresh    bigint[];
    n          integer := cardinality(p_ids);
    -- What is the same for all.
    v_task     text     := CASE WHEN cardinality(p_tasks) = 1 THEN p_tasks[1] END;
    v_queue    text     := CASE WHEN cardinality(p_queues) = 1 THEN p_queues[1] END;
    v_args     text     := CASE WHEN cardinality(p_args) = 1 THEN p_args[1] END;
    v_tenant   text     := CASE WHEN cardinality(p_tenants) = 1 THEN p_tenants[1] END;
    v_priority smallint := CASE WHEN cardinality(p_priorities) = 1 THEN p_priorities[1] END;
    v_delay    bigint   := CASE WHEN cardinality(p_delays) = 1 THEN p_delays[1] END;
    v_at       bigint   := CASE WHEN cardinality(p_ats) = 1 THEN p_ats[1] END;
    v_retry    text     := CASE WHEN cardinality(p_retries) = 1 THEN p_retries[1] END;
    v_timeout  bigint   := CASE WHEN cardinality(p_timeouts) = 1 THEN p_timeouts[1] END;
    v_metadata text     := CASE WHEN cardinality(p_metadatas) = 1 THEN p_metadatas[1] END;
    v_kept     bigint   := CASE WHEN cardinality(p_retentions) = 1 THEN p_retentions[1] END;
    v_same     boolean  := cardinality(p_ats) = 1 AND cardinality(p_delays) = 1;
    ousted     record;
BEGIN
    ended := false;
    IF cardinality(p_names) > 0 THEN
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
    END IF;
    v_seqs := ARRAY(SELECT nextval('headgate.arrivals') FROM generate_series(1, n));

    -- Without unique keys, caps, new limits and several needs: nothing but the rows.
    IF NOT v_caps AND NOT v_changes AND cardinality(p_use_jobs) = 0 AND cardinality(array_remove(p_uniques, NULL)) = 0
        THEN
        WITH rows AS MATERIALIZED (
            SELECT u.seq, u.id, coalesce(v_task, u.task) AS task, coalesce(v_queue, u.queue) AS queue,
                   coalesce(v_tenant, u.tenant) AS tenant, coalesce(v_priority, u.priority) AS priority,
                   coalesce(v_at, u.at, v_now + coalesce(v_delay, u.delay)) AS due, coalesce(v_args, u.args) AS args,
                   coalesce(v_retry, u.retry) AS retry, coalesce(v_timeout, u.timeout) AS timeout,
                   coalesce(v_metadata, u.metadata) AS metadata, coalesce(v_kept, u.retention) AS retention,
                   CASE WHEN v_each THEN ARRAY[u.key] END AS keys, CASE WHEN v_each THEN ARRAY[u.units] END AS units
            FROM unnest(v_seqs, p_ids, p_tasks, p_queues, p_tenants, p_priorities, p_args, p_delays, p_ats, p_retries,
                        p_timeouts, p_metadatas, p_retentions, p_use_keys, p_use_units)
                AS u (seq, id, task, queue, tenant, priority, args, delay, at, retry, timeout, metadata, retention, key,
                      units)
            ORDER BY u.id COLLATE "C"
        ), stored AS (
            INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units,
                                       retry, timeout, metadata, retention)
            SELECT r.seq, r.id, r.task, r.queue, r.tenant, r.priority, v_now, r.args, r.keys, r.units, r.retry,
                   r.timeout, r.metadata, r.retention
            FROM rows r
            ON CONFLICT (id) DO NOTHING RETURNING 1
        ), standing AS (
            INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, fresh,
                                       unseen, waiting_on, units, refusals)
            SELECT r.seq, r.task, r.queue, r.tenant, r.priority, r.due,
                   CASE WHEN r.due > v_now THEN 'scheduled' WHEN d.lines THEN 'waiting' ELSE 'ready' END,
                   r.keys, r.units, v_each AND r.due <= v_now AND NOT d.lines, d.lines AND r.due <= v_now,
                   CASE WHEN d.lines AND r.due <= v_now THEN r.keys[1] END, (d.lines AND r.due <= v_now)::integer,
                   CASE WHEN d.lines AND r.due <= v_now THEN 0 END
            FROM rows r CROSS JOIN LATERAL (SELECT v_each AND r.units[1] = 1 AND r.keys[1] LIKE 'c%' AS lines) AS d
        )
        SELECT count(*) INTO v_count FROM stored;
        IF v_count < n THEN
            DELETE FROM headgate.live l WHERE l.seq = ANY (v_seqs);
            DELETE FROM headgate.jobs j WHERE j.seq = ANY (v_seqs);
            problem := 'exists';
            subject := coalesce(headgate._taken(p_ids), p_ids[1]);
            RETURN;
        END IF;
        IF v_each THEN  -- also for keys in whose lines nobody stands now: a look that finds nothing is cheap
            INSERT INTO headgate.rechecks (key) SELECT DISTINCT k.key FROM unnest(p_use_keys) AS k (key)
            WHERE k.key LIKE 'c%';
        END IF;
        IF v_same THEN
            states := ARRAY[CASE WHEN coalesce(v_at, v_now + v_delay) <= v_now THEN 'ready' ELSE 'scheduled' END];
        ELSE
            SELECT array_agg(CASE WHEN coalesce(v_at, u.at, v_now + coalesce(v_delay, u.delay)) <= v_now
                                  THEN 'ready' ELSE 'scheduled' END ORDER BY u.n)
            INTO states FROM unnest(p_ids, p_delays, p_ats) WITH ORDINALITY AS u (id, delay, at, n);
        END IF;
        IF p_notify THEN
            PERFORM pg_notify({channel}, 'w');
            again := false;
        ELSE
            again := NOT headgate.wake(true, false, p_by);
        END IF;
        RETURN;
    END IF;

    v_ousts := array_fill(NULL::bigint, ARRAY[n]);
    rivals := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    IF cardinality(array_remove(p_uniques, NULL)) > 0 THEN
        PERFORM headgate._lock_uniques(p_tenants, p_uniques);
        SELECT c.rivals, c.ousts, c.problem, c.subject, c.detail INTO rivals, v_ousts, problem, subject, detail
        FROM headgate._conflicts(p_ids, v_seqs, p_tenants, p_uniques, p_conflicts) AS c;
        v_ousted := array_remove(v_ousts, NULL);
        IF detail LIKE 'new %' THEN
            n := array_position(p_ids, subject);
            detail := CASE WHEN coalesce(v_at, p_ats[n], v_now + coalesce(v_delay, p_delays[n])) <= v_now THEN 'ready'
                ELSE 'scheduled' END || substr(detail, 4);
        END IF;
    END IF;
    BEGIN
        WITH rows AS MATERIALIZED (
            SELECT s.seq, r.id, coalesce(v_task, r.task) AS task, coalesce(v_queue, r.queue) AS queue,
                   coalesce(v_tenant, r.tenant) AS tenant, coalesce(v_priority, r.priority) AS priority, d.due,
                   coalesce(v_args, r.args) AS args, u.keys, u.units, coalesce(v_retry, r.retry) AS retry,
                   coalesce(v_timeout, r.timeout) AS timeout, r.unique_key,
                   CASE WHEN s.ousts IS NULL AND s.seq <> ALL (v_ousted) THEN r.unique_key END AS has_key,
                   coalesce(v_metadata, r.metadata) AS metadata, coalesce(v_kept, r.retention) AS retention
            FROM unnest(p_ids, p_tasks, p_queues, p_args, p_tenants, p_priorities, p_delays, p_ats, p_retries,
                        p_timeouts, p_uniques, p_metadatas, p_retentions)
                WITH ORDINALITY AS r (id, task, queue, args, tenant, priority, delay, at, retry, timeout, unique_key,
                                      metadata, retention, n)
            JOIN unnest(v_seqs, rivals, v_ousts) WITH ORDINALITY AS s (seq, rival, ousts, n) ON s.n = r.n
            LEFT JOIN (
                SELECT coalesce(k.job, k.n) AS job, array_agg(k.key ORDER BY k.n) AS keys,
                       array_agg(k.units ORDER BY k.n) AS units
                FROM unnest(p_use_jobs, p_use_keys, p_use_units) WITH ORDINALITY AS k (job, key, units, n) GROUP BY 1
            ) AS u ON cardinality(p_use_keys) > 0 AND u.job = r.n
            CROSS JOIN LATERAL (SELECT coalesce(v_at, r.at, v_now + coalesce(v_delay, r.delay)) AS due) AS d
            WHERE s.rival IS NULL AND problem IS NULL
            ORDER BY r.id COLLATE "C"
        ), stored AS (
            INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units,
                                       retry, timeout, unique_key, metadata, retention)
            SELECT r.seq, r.id, r.task, r.queue, r.tenant, r.priority, v_now, r.args, r.keys, r.units, r.retry,
                   r.timeout, r.unique_key, r.metadata, r.retention
            FROM rows r
            ON CONFLICT (id) DO NOTHING RETURNING seq
        ), standing AS (
            INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, unique_key,
                                       fresh)
            SELECT r.seq, r.task, r.queue, r.tenant, r.priority, r.due,
                   CASE WHEN r.due <= v_now THEN 'ready' ELSE 'scheduled' END, r.keys, r.units, r.has_key,
                   r.due <= v_now AND (r.keys IS NOT NULL
                       OR v_caps AND (headgate._uses(r.task, r.queue, NULL, NULL, true)).keys IS NOT NULL)
            FROM rows r WHERE r.seq IN (SELECT s.seq FROM stored s)
        )
        SELECT count(*) INTO v_count FROM stored;
        -- An id that is there already refuses the whole call, whatever its unique key would have said.
        IF v_count < cardinality(p_ids) THEN
            IF problem IS NOT NULL OR v_count < cardinality(array_positions(rivals, NULL))
               OR (SELECT count(DISTINCT u.id) < count(*) FROM unnest(p_ids) AS u (id))
               OR EXISTS (SELECT 1 FROM unnest(p_ids, rivals) AS u (id, rival) JOIN headgate.jobs j ON j.id = u.id
                          WHERE u.rival IS NOT NULL) THEN
                RAISE EXCEPTION SQLSTATE 'HG002';
            END IF;
        END IF;
        IF v_changes THEN
            PERFORM headgate._change_rules();
        ELSIF cardinality(v_ousted) > 0 AND p_notify IS NOT TRUE THEN
            PERFORM headgate._hold_rules();
        END IF;
        FOR ousted IN SELECT l.seq, j.id, l.state FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
                 WHERE l.seq = ANY (v_ousts) AND l.seq <> ALL (v_seqs) ORDER BY l.seq FOR UPDATE OF l LOOP
            IF ousted.state = 'running' THEN  -- since a moment ago
                problem := 'rival';
                subject := ousted.id;
                detail := 'running ' || p_uniques[array_position(v_ousts, ousted.seq)];
                RAISE EXCEPTION SQLSTATE 'HG002';
            END IF;
            v_there := v_there || ousted.seq;
        END LOOP;
        -- Who has ended since then is replaced by nobody.
        v_ousts := ARRAY(SELECT CASE WHEN o.seq IS NULL OR o.seq = ANY (v_there || v_seqs) THEN o.seq ELSE -1 END
                         FROM unnest(v_ousts) WITH ORDINALITY AS o (seq, n) ORDER BY o.n);
    EXCEPTION WHEN SQLSTATE 'HG002' THEN
        IF problem IS NULL OR headgate._taken(p_ids) IS NOT NULL THEN
            problem := 'exists';
            subject := coalesce(headgate._taken(p_ids), p_ids[1]);
        END IF;
        RETURN;
    END;

    IF cardinality(v_ousted) > 0 THEN
        SELECT o.touched, o.states INTO v_touched, states
        FROM headgate._oust(p_ids, v_seqs, v_ousts, rivals, p_uniques, p_declared, v_changes, v_now, p_keep,
            p_notify) AS o;
        ended := true;
    ELSE
        IF v_changes THEN
            v_touched := headgate._declare(p_declared, v_now);
            v_fresh := ARRAY(SELECT j.seq FROM headgate.live j WHERE j.seq = ANY (v_seqs) AND j.state = 'ready'
                ORDER BY j.seq);
            PERFORM headgate._lock_keys(v_touched || headgate._keys_of(v_fresh));
            v_touched := headgate._arrive(v_fresh, v_now, v_touched);
        END IF;
        -- The state that each job got, before anybody is offered anything.
        SELECT array_agg(coalesce(l.state, e.state) ORDER BY u.n) INTO states
        FROM unnest(p_ids, rivals) WITH ORDINALITY AS u (id, rival, n) JOIN headgate.jobs j
            ON j.id = coalesce(u.rival, u.id)
        LEFT JOIN headgate.live l ON l.seq = j.seq LEFT JOIN headgate.ended e ON e.seq = j.seq;
    END IF;
    PERFORM headgate._offer(v_touched, v_now, p_ttl);
    IF p_notify THEN
        PERFORM pg_notify({channel}, 'w');
        again := false;
    ELSE
        again := NOT headgate.wake(true, ended, p_by);
    END IF;
END $$;

-- Where a job stands, or how it ended.   Reads: jobs_id, live and ended by primary key.
CREATE OR REPLACE FUNCTION headgate._state(p_id text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT coalesce(l.state, e.state) FROM headgate.jobs j
        LEFT JOIN headgate.live l ON l.seq = j.seq LEFT JOIN headgate.ended e ON e.seq = j.seq WHERE j.id = p_id
    );
END $$;

-- The first id that is there already or comes twice.
CREATE OR REPLACE FUNCTION headgate._taken(p_ids text[]) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT u.id FROM unnest(p_ids) WITH ORDINALITY AS u (id, n)
        WHERE EXISTS (SELECT 1 FROM headgate.jobs j WHERE j.id = u.id) OR u.id = ANY (p_ids[1 : u.n - 1])
        ORDER BY u.n LIMIT 1
    );
END $$;

-- What the unique keys of new jobs meet, each in turn: an unfinished job, stored or of the same call.
-- `rivals`   ids of jobs that stand for new ones; `ousts`: jobs that new ones replace (by the time their rows are
--            locked, some may have ended or begun to run).   `problem` of the first job in order that has one.
-- The caller holds the unique keys: rivals may go, but none can come.   Reads: live_unique.
CREATE OR REPLACE FUNCTION headgate._conflicts(p_ids text[], p_seqs bigint[], p_tenants text[], p_uniques text[],
    p_conflicts text[],
    OUT rivals text[], OUT ousts bigint[], OUT problem text, OUT subject text, OUT detail text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    -- after each: which of them has its key; 0 the stored one
    v_has  integer[] := array_fill(0, ARRAY[cardinality(p_ids)]);
    r      record;
    rival  record;
BEGIN
    rivals := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    ousts := array_fill(NULL::bigint, ARRAY[cardinality(p_ids)]);
    FOR r IN
        SELECT u.n::integer, lag(u.n::integer) OVER w AS before, l.seq, j.id, l.state
        FROM unnest(p_tenants, p_uniques) WITH ORDINALITY AS u (tenant, key, n)
        LEFT JOIN headgate.live l ON l.tenant = u.tenant AND l.unique_key = u.key
        LEFT JOIN headgate.jobs j ON j.seq = l.seq
        WHERE u.key IS NOT NULL WINDOW w AS (PARTITION BY u.tenant, u.key ORDER BY u.n) ORDER BY u.n
    LOOP
        rival := r;
        IF v_has[r.before] > 0 THEN
            rival.seq := p_seqs[v_has[r.before]];
            rival.id := p_ids[v_has[r.before]];
            rival.state := 'new';
        END IF;
        v_has[r.n] := r.n;
        IF rival.seq IS NULL THEN
            CONTINUE;
        ELSIF p_conflicts[r.n] = 'return' THEN
            rivals[r.n] := rival.id;
            v_has[r.n] := coalesce(v_has[r.before], 0);
        ELSIF p_conflicts[r.n] = 'replace' AND rival.state <> 'running' THEN
            ousts[r.n] := rival.seq;
        ELSE
            problem := 'rival';
            subject := rival.id;
            detail := rival.state || ' ' || p_uniques[r.n];
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Jobs replace others: all of the call come one after the other, each after what it replaces has left.
-- In a caller's transaction (p_notify) no key is locked: `rechecks` has the next sweep pass on what they were promised.
-- Returns the keys to offer and the state that each job got when it came.
-- Locks: keys (4). The caller holds the replaced jobs.
CREATE OR REPLACE FUNCTION headgate._oust(p_ids text[], p_seqs bigint[], p_ousts bigint[], p_rivals text[],
    p_uniques text[],
    p_declared json, p_changes boolean, p_now bigint, p_keep bigint[], p_notify boolean, OUT touched text[],
        OUT states text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    v_gone text[];
BEGIN
    touched := '{}';
    states := '{}';
    IF p_changes THEN
        touched := headgate._declare(p_declared, p_now);
    END IF;
    IF p_notify IS NOT TRUE THEN
        PERFORM headgate._lock_keys(touched || headgate._keys_of(p_seqs || p_ousts));
    END IF;
    -- While both are unfinished, neither has the key.
    UPDATE headgate.live j SET unique_key = NULL WHERE j.seq = ANY (p_ousts) AND j.seq <> ALL (p_seqs);
    FOR n IN 1 .. cardinality(p_ids) LOOP
        IF p_ousts[n] IS NOT NULL THEN
            v_gone := headgate._give_back(p_ousts[n : n]);
            PERFORM headgate._cancel(p_ousts[n], p_now, p_keep);
            IF p_notify THEN
                INSERT INTO headgate.rechecks (key) SELECT g.key FROM unnest(v_gone) AS g (key);
            ELSE
                touched := touched || v_gone;
            END IF;
            IF p_seqs[n] <> ALL (array_remove(p_ousts, NULL)) THEN
                UPDATE headgate.live j SET unique_key = p_uniques[n] WHERE j.seq = p_seqs[n];
            END IF;
        END IF;
        IF p_notify IS NOT TRUE AND EXISTS (SELECT 1 FROM headgate.live j WHERE j.seq = p_seqs[n] AND j.state = 'ready')
            THEN
            touched := headgate._arrive(p_seqs[n : n], p_now, touched);
        END IF;
        states := states || headgate._state(coalesce(p_rivals[n], p_ids[n]));
    END LOOP;
END $$;

-- For any client in any language, inside its own transaction: SELECT headgate.enqueue('send', '{"to": "a@b.c"}');
-- The job is invisible until that transaction commits and gone if it rolls back. No limit is locked.
-- p_options   queue, tenant, priority (0-99), delay (seconds), at (timestamp with time zone), id, unique, on_conflict
--             (return, raise, replace), metadata, timeout (seconds), attempts, retry_delay (seconds), and
--             limits: [{"name": "customer", "key": "42", "units": 1, "tenant": ""}], which must be declared.
-- Returns the id of the job, or of the unfinished one with the same unique key.
CREATE OR REPLACE FUNCTION headgate.enqueue(p_task text, p_args json DEFAULT '{}', p_options jsonb DEFAULT '{}')
    RETURNS text
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
    WHERE o.name NOT IN ('queue', 'tenant', 'priority', 'delay', 'at', 'id', 'unique', 'on_conflict', 'metadata',
        'timeout',
                         'attempts', 'retry_delay', 'limits');
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'unknown options: %', v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF coalesce((p_options ->> 'priority')::integer, 50) NOT BETWEEN 0 AND 99 THEN
        RAISE EXCEPTION 'priority % is not between 0 (first) and 99', p_options ->> 'priority'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(k.key ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.units ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.name), array_agg(k.rate)
    INTO v_keys, v_units, v_names, v_rates
    FROM (
        SELECT t.name, t.rate, t.text, t.tenant, max(t.units) AS units,
               CASE WHEN t.rate THEN 'r' ELSE 'c' END || length(t.tenant) || ':' || t.tenant || t.text AS key
        FROM (
            SELECT u ->> 'name' AS name, coalesce((u ->> 'units')::bigint, 1) AS units, coalesce(u ->> 'tenant',
                v_tenant) AS tenant,
                   coalesce((SELECT l.kind = 'rate' FROM headgate.limits l WHERE l.name = u ->> 'name'), false) AS rate,
                   (u ->> 'name') || coalesce('=' || (u ->> 'key'), '') AS text
            FROM jsonb_array_elements(coalesce(p_options -> 'limits', '[]')) AS u
        ) AS t GROUP BY t.name, t.rate, t.text, t.tenant
    ) AS k;
    SELECT * INTO r FROM headgate._enqueue(
        ARRAY[v_id], ARRAY[p_task], ARRAY[coalesce(p_options ->> 'queue', 'default')], ARRAY[p_args::text],
            ARRAY[v_tenant],
        ARRAY[coalesce((p_options ->> 'priority')::smallint, 50::smallint)],
        ARRAY[round(coalesce((p_options ->> 'delay')::numeric, 0) * 1000000)::bigint],
        ARRAY[(extract(epoch FROM (p_options ->> 'at')::timestamptz) * 1000000)::bigint],
        ARRAY[format('[%s,%s,2.0,3600000000,0.0]', coalesce((p_options ->> 'attempts')::integer, 3),
                     round(coalesce((p_options ->> 'retry_delay')::numeric, 1) * 1000000))],
        ARRAY[round((p_options ->> 'timeout')::numeric * 1000000)::bigint], ARRAY[p_options ->> 'unique'],
        ARRAY[coalesce(p_options ->> 'on_conflict', 'return')], ARRAY[(p_options -> 'metadata')::text],
            ARRAY[NULL::bigint],
        array_fill(1, ARRAY[coalesce(cardinality(v_keys), 0)]), coalesce(v_keys, '{}'), coalesce(v_units, '{}'),
        coalesce(v_names, '{}'), coalesce(v_rates, '{}'), NULL, NULL, 10000000, ARRAY[86400000000, 1209600000000,
            1209600000000],
        NULL, true);
    IF r.problem IN ('undeclared', 'kind') THEN
        RAISE EXCEPTION 'limit "%" is not declared; declare it in the app that runs the task', r.subject
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF r.problem = 'rival' THEN
        RAISE EXCEPTION 'job "%" with unique key "%" is %', r.subject, p_options ->> 'unique',
            split_part(r.detail, ' ', 1) USING ERRCODE = 'unique_violation';
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
