-- Store new jobs, all or none.
-- p_ids … p_retentions   one entry per job; p_ats (points in time) beat p_delays. But for p_ids a single entry stands
--                        for all, unless there are unique keys.
-- p_use_jobs, p_use_keys, p_use_units   the needs of jobs: position of the job, key, units, each job's in the order of
--                        rule 6; without p_use_jobs one for each job
-- p_names, p_rates       the limits that are used, which must be declared: in the store or in p_declared
-- p_declared             limits to declare in the same step, as JSON
-- p_by                   the listener that knows already; p_notify: NULL asks which listeners sleep, true calls in any
--                        case, for a caller's transaction, whose end is not seen here
-- `problem` says why nothing was stored: exists, rival, undeclared, kind; `subject` and `detail` about what.
-- `states` of the jobs, or one for all of them; `rivals` the ids of unfinished jobs with the same unique key that stand
-- for them, if any.
-- Locks: unique keys and new ids, each in order (0). Where a job is replaced: its row in `live` (3); then, and where a
-- limit is declared, but never in a caller's transaction: rules (1), keys (4), waiters (5).   Reads: jobs_id,
-- live_unique.
CREATE OR REPLACE FUNCTION headgate._enqueue(
    p_ids text[], p_tasks text[], p_queues text[], p_args text[], p_tenants text[], p_priorities smallint[],
    p_delays bigint[], p_ats bigint[], p_retries text[], p_timeouts bigint[], p_uniques text[], p_conflicts text[],
    p_metadatas text[], p_headers text[], p_retentions bigint[], p_use_jobs integer[], p_use_keys text[],
    p_use_units bigint[],
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
    v_unique   boolean := cardinality(array_remove(p_uniques, NULL)) > 0;
    -- newcomers stand in the line of their first key at once; else they arrive in this step
    v_lines    boolean := NOT v_changes;
    v_firsts   text[];
    v_keys     text[] := CASE WHEN v_each THEN p_use_keys END;
    v_units    bigint[] := CASE WHEN v_each THEN p_use_units END;
    v_seqs     bigint[];
    v_count    bigint;
    v_replaced    bigint[];
    v_leaving   bigint[] := '{}';
    v_there    bigint[] := '{}';
    v_touched  text[] := '{}';
    v_new      bigint[];
    n          integer;
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
    v_headers  text     := CASE WHEN cardinality(p_headers) = 1 THEN p_headers[1] END;
    v_kept     bigint   := CASE WHEN cardinality(p_retentions) = 1 THEN p_retentions[1] END;
    rival     record;
BEGIN
    ended := false;
    IF cardinality(p_names) > 0 THEN
        SELECT m.problem, m.subject, m.detail INTO problem, subject, detail
        FROM headgate._misused(p_names, p_rates, p_declared) AS m;
        IF problem IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    v_seqs := ARRAY(SELECT nextval('headgate.arrivals') FROM generate_series(1, cardinality(p_ids)));
    IF v_unique THEN
        PERFORM headgate._lock_uniques(p_tenants, p_uniques);
        SELECT c.rivals, c.replaced, c.problem, c.subject, c.detail INTO rivals, v_replaced, problem, subject, detail
        FROM headgate._conflicts(p_ids, v_seqs, p_tenants, p_uniques, p_conflicts) AS c;
        v_leaving := array_remove(v_replaced, NULL);
        v_lines := v_lines AND (cardinality(v_leaving) = 0 OR p_notify IS TRUE);
        IF detail LIKE 'new %' THEN
            n := array_position(p_ids, subject);
            detail := CASE WHEN coalesce(v_at, p_ats[n], v_now + coalesce(v_delay, p_delays[n])) <= v_now THEN 'ready'
                ELSE 'scheduled' END || substr(detail, 4);
        END IF;
    END IF;

    WITH called AS MATERIALIZED (
        SELECT r.seq, r.id, coalesce(v_task, r.task) AS task, coalesce(v_queue, r.queue) AS queue,
               coalesce(v_tenant, r.tenant) AS tenant, coalesce(v_priority, r.priority) AS priority, d.due,
               coalesce(v_args, r.args) AS args, coalesce(v_retry, r.retry) AS retry,
               coalesce(v_timeout, r.timeout) AS timeout, r.unique_key,
               CASE WHEN r.replaced IS NULL AND r.seq <> ALL (v_leaving) THEN r.unique_key END AS has_key,
               coalesce(v_metadata, r.metadata) AS metadata, coalesce(v_headers, r.headers) AS headers,
               coalesce(v_kept, r.retention) AS retention,
               CASE WHEN v_each THEN ARRAY[r.key] ELSE u.keys END AS keys,
               CASE WHEN v_each THEN ARRAY[r.units] ELSE u.units END AS units, d.due <= v_now AS is_due
        FROM unnest(v_seqs, p_ids, p_tasks, p_queues, p_args, p_tenants, p_priorities, p_delays, p_ats, p_retries,
                    p_timeouts, p_uniques, p_metadatas, p_headers, p_retentions, rivals, v_replaced, v_keys, v_units)
            WITH ORDINALITY AS r (seq, id, task, queue, args, tenant, priority, delay, at, retry, timeout, unique_key,
                                  metadata, headers, retention, rival, replaced, key, units, n)
        LEFT JOIN (
            SELECT k.job, array_agg(k.key ORDER BY k.n) AS keys, array_agg(k.units ORDER BY k.n) AS units
            FROM unnest(p_use_jobs, p_use_keys, p_use_units) WITH ORDINALITY AS k (job, key, units, n)
            WHERE NOT v_each GROUP BY k.job
        ) AS u ON u.job = r.n
        CROSS JOIN LATERAL (SELECT coalesce(v_at, r.at, v_now + coalesce(v_delay, r.delay)) AS due) AS d
        WHERE r.rival IS NULL AND problem IS NULL
    ), caps AS (
        SELECT q.task, q.queue, (headgate._uses(q.task, q.queue, NULL, NULL, true)).keys[1] AS key
        FROM (SELECT DISTINCT c.task, c.queue FROM called c WHERE v_caps) AS q
    ), rows AS MATERIALIZED (
        SELECT c.*, f.key AS first, v_lines AND c.is_due AND f.key IS NOT NULL AS in_line
        FROM called c LEFT JOIN caps a ON a.task = c.task AND a.queue = c.queue
        CROSS JOIN LATERAL (
            SELECT CASE WHEN a.key IS NULL OR c.keys[1] LIKE 'c%'
                             AND headgate._text(c.keys[1]) COLLATE "C" < headgate._text(a.key) COLLATE "C"
                        THEN c.keys[1] ELSE a.key END AS key) AS f
        ORDER BY c.id COLLATE "C"
    ), stored AS (
        INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units,
                                   retry, timeout, unique_key, metadata, headers, retention)
        SELECT r.seq, r.id, r.task, r.queue, r.tenant, r.priority, v_now, r.args, r.keys, r.units, r.retry,
               r.timeout, r.unique_key, r.metadata, r.headers, r.retention
        FROM rows r
        ON CONFLICT (id) DO NOTHING RETURNING 1
    ), standing AS (
        INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, unique_key,
                                   unseen, waiting_on, units, refusals)
        SELECT r.seq, r.task, r.queue, r.tenant, r.priority, r.due,
               CASE WHEN r.in_line THEN 'waiting' WHEN r.is_due AND v_lines THEN 'ready' ELSE 'scheduled' END, r.keys,
               r.units, r.has_key, r.in_line, CASE WHEN r.in_line THEN r.first END,
               CASE WHEN NOT r.in_line THEN 0 WHEN r.first = r.keys[1] THEN r.units[1] ELSE 1 END,
               CASE WHEN r.in_line THEN 0 END
        FROM rows r
    )
    SELECT (SELECT count(*) FROM stored), (SELECT array_agg(DISTINCT r.first) FROM rows r WHERE r.in_line)
    INTO v_count, v_firsts;
    -- An id that is there already, or comes twice, refuses the whole call, whatever its unique key would have said.
    IF v_count < cardinality(p_ids) AND (
           NOT v_unique OR problem IS NOT NULL OR v_count < cardinality(array_positions(rivals, NULL))
           OR (SELECT count(DISTINCT u.id) < count(*) FROM unnest(p_ids) AS u (id))
           OR EXISTS (SELECT 1 FROM unnest(p_ids, rivals) AS u (id, rival) JOIN headgate.jobs j ON j.id = u.id
                      WHERE u.rival IS NOT NULL)) THEN
        PERFORM headgate._refuse(v_seqs);
        IF problem IS NULL OR headgate._taken(p_ids) IS NOT NULL THEN
            problem := 'exists';
            subject := coalesce(headgate._taken(p_ids), p_ids[1]);
        END IF;
        RETURN;
    END IF;
    IF v_firsts IS NOT NULL THEN
        INSERT INTO headgate.rechecks (key) SELECT f.key FROM unnest(v_firsts) AS f (key);
    END IF;

    IF v_changes THEN
        PERFORM headgate._change_rules();
    ELSIF cardinality(v_leaving) > 0 AND p_notify IS NOT TRUE THEN
        PERFORM headgate._hold_rules();
    END IF;
    IF cardinality(v_leaving) > 0 THEN
        BEGIN
            FOR rival IN SELECT l.seq, j.id, l.state FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
                     WHERE l.seq = ANY (v_replaced) AND l.seq <> ALL (v_seqs) ORDER BY l.seq FOR UPDATE OF l LOOP
                IF rival.state = 'running' THEN  -- since a moment ago
                    problem := 'rival';
                    subject := rival.id;
                    detail := 'running ' || p_uniques[array_position(v_replaced, rival.seq)];
                    RAISE EXCEPTION SQLSTATE 'HG002';  -- which lets go of the others: a caller may stay for long
                END IF;
                v_there := v_there || rival.seq;
            END LOOP;
        EXCEPTION WHEN SQLSTATE 'HG002' THEN
            PERFORM headgate._refuse(v_seqs);
            RETURN;
        END;
        -- A rival that has ended since then is not replaced.
        v_replaced := ARRAY(SELECT CASE WHEN o.seq IS NULL OR o.seq = ANY (v_there || v_seqs) THEN o.seq ELSE -1 END
                         FROM unnest(v_replaced) WITH ORDINALITY AS o (seq, n) ORDER BY o.n);
        SELECT o.touched, o.states INTO v_touched, states
        FROM headgate._replace(p_ids, v_seqs, v_replaced, rivals, p_uniques, p_declared, v_changes, v_now, p_keep,
            p_notify) AS o;
        ended := true;
    ELSIF v_changes THEN
        PERFORM headgate._declare(p_declared, v_now);
        v_new := ARRAY(SELECT j.seq FROM headgate.live j WHERE j.seq = ANY (v_seqs) AND j.due <= v_now ORDER BY j.seq);
        PERFORM headgate._lock_keys(headgate._keys_of(v_new));
        v_touched := headgate._arrive(v_new, v_now, v_touched);
    END IF;

    -- The state that each job got, before any of them is offered anything.
    IF states IS NOT NULL THEN
        NULL;
    ELSIF v_changes OR v_unique THEN
        -- A rival that is gone by now was unfinished when it was met.
        SELECT array_agg(CASE WHEN u.rival IS NULL AND l.state = 'waiting' AND l.unseen THEN 'ready'
                              ELSE coalesce(l.state, e.state, 'ready') END ORDER BY u.n) INTO states
        FROM unnest(p_ids, rivals) WITH ORDINALITY AS u (id, rival, n) LEFT JOIN headgate.jobs j
            ON j.id = coalesce(u.rival, u.id)
        LEFT JOIN headgate.live l ON l.seq = j.seq LEFT JOIN headgate.ended e ON e.seq = j.seq;
    ELSIF cardinality(p_ats) = 1 AND cardinality(p_delays) = 1 THEN
        states := ARRAY[CASE WHEN coalesce(v_at, v_now + v_delay) <= v_now THEN 'ready' ELSE 'scheduled' END];
    ELSE
        SELECT array_agg(CASE WHEN coalesce(v_at, u.at, v_now + coalesce(v_delay, u.delay)) <= v_now
                              THEN 'ready' ELSE 'scheduled' END ORDER BY u.n)
        INTO states FROM unnest(p_ids, p_delays, p_ats) WITH ORDINALITY AS u (id, delay, at, n);
    END IF;
    IF cardinality(v_touched) > 0 THEN
        PERFORM headgate._offer(v_touched, v_now, p_ttl);
    END IF;
    IF p_notify THEN
        PERFORM pg_notify({channel}, 'w');
        again := false;
    ELSE
        again := NOT headgate.wake(true, ended, p_by);
    END IF;
END $$;

-- What is wrong with limits that jobs use: the first that is not declared, or declared as the other kind.
-- p_names, p_rates   the limits, and whether they are used as rates   p_declared   limits that are declared in the same step
CREATE OR REPLACE FUNCTION headgate._misused(p_names text[], p_rates boolean[], p_declared json,
                                             OUT problem text, OUT subject text, OUT detail text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT CASE WHEN k.kind IS NULL THEN 'undeclared' ELSE 'kind' END, u.name, k.kind INTO problem, subject, detail
    FROM unnest(p_names, p_rates) AS u (name, rate)
    LEFT JOIN LATERAL (
        SELECT coalesce((SELECT d ->> 'kind' FROM json_array_elements(p_declared) AS d WHERE d ->> 'name' = u.name),
                        (SELECT l.kind FROM headgate.limits l WHERE l.name = u.name)) AS kind
    ) AS k ON true
    WHERE k.kind IS NULL OR (k.kind = 'rate') <> u.rate LIMIT 1;
END $$;

-- The jobs of a call that is refused are gone again.
CREATE OR REPLACE FUNCTION headgate._refuse(p_seqs bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM headgate.live l WHERE l.seq = ANY (p_seqs);
    DELETE FROM headgate.jobs j WHERE j.seq = ANY (p_seqs);
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
