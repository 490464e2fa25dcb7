-- Store new jobs, all or none.
-- p_ids … p_retentions   one entry per job; p_ats (points in time) beat p_delays. But for p_ids a single entry stands
--                        for all, unless there are unique keys.
-- p_use_jobs, p_use_keys, p_use_units   the needs of jobs: position of the job, key, units, each job's in the order of
--                        rule 6; without p_use_jobs one for each job
-- p_names, p_rates       the limits that are used, which must be declared: in the store or in p_declared
-- p_declared             limits to declare in the same step, as JSON
-- p_more                 NULL, or as JSON what few jobs bring: `numbers`, one for each of p_use_keys, and `jobs`, for each job,
--                        or one for all, its share, by_time, start_by, start_within, at_most, unique_for
-- p_by                   the listener that knows already; p_notify: NULL asks which listeners sleep, true calls in any
--                        case, for a caller's transaction, whose end is not seen here
-- `problem` says why nothing was stored: exists, rival, started, task, undeclared, kind, full; `subject` and `detail` about
-- what.
-- `states` of the jobs, or one for all of them; `rivals` the ids of unfinished jobs with the same unique key that stand
-- for them, if any.
-- Shares are read without a lock: jobs of one share that two calls store at the same time may have the same tags.
-- Locks: unique keys and new ids, each in order (0). Where a job is replaced: its row in `live` (3); then, and where a
-- limit is declared, but never in a caller's transaction: rules (1), keys (4), waiters (5).   Reads: jobs_id,
-- live_unique.
CREATE OR REPLACE FUNCTION headgate._enqueue(
    p_ids text[], p_tasks text[], p_queues text[], p_args text[], p_tenants text[], p_priorities smallint[],
    p_delays bigint[], p_ats bigint[], p_retries text[], p_timeouts bigint[], p_uniques text[], p_conflicts text[],
    p_metadatas text[], p_headers text[], p_retentions bigint[], p_use_jobs integer[], p_use_keys text[],
    p_use_units bigint[],
    p_names text[], p_rates boolean[], p_declared json, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
        p_notify boolean, p_more json,
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
    v_first_queues     text[];
    v_first_priorities smallint[];
    v_first_tags       bigint[];
    v_keys     text[] := CASE WHEN v_each THEN p_use_keys END;
    v_units    bigint[] := CASE WHEN v_each THEN p_use_units END;
    v_seqs     bigint[];
    v_count    bigint;
    v_replaced    bigint[];
    v_leaving   bigint[] := '{}';
    v_moves    boolean := false;  -- stored jobs are replaced or updated
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
    v_policies boolean := headgate._any_policy();
    v_shares       text[];      -- what few jobs bring, an entry for each
    v_by_times     boolean[];
    v_start_bys    bigint[];
    v_start_withins bigint[];
    v_at_mosts     bigint[];
    v_unique_fors  bigint[];
    v_numbers  bigint[];
    v_updated  bigint[];
    v_tags     bigint[];
    v_brought  text[];
    v_each_number bigint[];
    v_held     record;
    v_full     record;
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
        SELECT c.rivals, c.replaced, c.updated, c.problem, c.subject, c.detail
        INTO rivals, v_replaced, v_updated, problem, subject, detail
        FROM headgate._conflicts(p_ids, v_seqs, p_tenants, p_uniques, p_conflicts, v_now) AS c;
        v_leaving := array_remove(v_replaced, NULL);
        v_moves := cardinality(v_leaving || array_remove(v_updated, NULL)) > 0;
        v_lines := v_lines AND (NOT v_moves OR p_notify IS TRUE);
        IF detail LIKE 'new %' THEN
            n := array_position(p_ids, subject);
            detail := CASE WHEN coalesce(v_at, p_ats[n], v_now + coalesce(v_delay, p_delays[n])) <= v_now THEN 'ready'
                ELSE 'scheduled' END || substr(detail, 4);
        END IF;
    END IF;

    IF p_more IS NOT NULL THEN
        SELECT x.numbers, x.shares, x.by_times, x.start_bys, x.start_withins, x.at_mosts, x.unique_fors
        INTO v_numbers, v_shares, v_by_times, v_start_bys, v_start_withins, v_at_mosts, v_unique_fors
        FROM headgate._more(p_more, cardinality(p_ids)) AS x;
        v_each_number := v_numbers;
        IF v_lines AND v_shares IS NOT NULL THEN
            v_tags := headgate._tags(
                CASE WHEN v_queue IS NULL THEN p_queues ELSE array_fill(v_queue, ARRAY[cardinality(p_ids)]) END,
                CASE WHEN v_priority IS NULL THEN p_priorities ELSE array_fill(v_priority, ARRAY[cardinality(p_ids)]) END,
                v_shares, v_by_times,
                ARRAY(SELECT coalesce(v_at, u.at, v_now + coalesce(v_delay, u.delay)) <= v_now AND u.rival IS NULL
                      FROM unnest(p_ids, p_delays, p_ats, rivals) WITH ORDINALITY AS u (id, delay, at, rival, n) ORDER BY u.n));
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
               CASE WHEN v_each THEN ARRAY[r.units] ELSE u.units END AS units,
               CASE WHEN v_numbers IS NULL THEN NULL WHEN v_each THEN ARRAY[v_numbers[r.n]] ELSE u.numbers END AS numbers,
               r.share, r.by_time, coalesce(r.start_by, v_now + r.start_within) AS start_by, r.unique_for,
               coalesce(r.tag, 0) AS tag, d.due <= v_now AS is_due,
               v_unique AND p_conflicts[r.n] = 'update' AS updates
        FROM unnest(v_seqs, p_ids, p_tasks, p_queues, p_args, p_tenants, p_priorities, p_delays, p_ats, p_retries,
                    p_timeouts, p_uniques, p_metadatas, p_headers, p_retentions, rivals, v_replaced, v_keys, v_units,
                    v_shares, v_by_times, v_start_bys, v_start_withins, v_unique_fors, v_tags)
            WITH ORDINALITY AS r (seq, id, task, queue, args, tenant, priority, delay, at, retry, timeout, unique_key,
                                  metadata, headers, retention, rival, replaced, key, units, share, by_time, start_by,
                                  start_within, unique_for, tag, n)
        LEFT JOIN (
            SELECT k.job, array_agg(k.key ORDER BY k.n) AS keys, array_agg(k.units ORDER BY k.n) AS units,
                   array_agg(k.number ORDER BY k.n) AS numbers
            FROM unnest(p_use_jobs, p_use_keys, p_use_units, v_numbers) WITH ORDINALITY AS k (job, key, units, number, n)
            WHERE NOT v_each GROUP BY k.job
        ) AS u ON u.job = r.n
        CROSS JOIN LATERAL (SELECT coalesce(v_at, r.at, v_now + coalesce(v_delay, r.delay)) AS due) AS d
        WHERE r.rival IS NULL AND problem IS NULL
    ), caps AS (
        SELECT q.task, q.queue, (headgate._uses(q.task, q.queue, NULL, NULL, true)).keys[1] AS key
        FROM (SELECT DISTINCT c.task, c.queue FROM called c WHERE v_caps) AS q
    ), rows AS MATERIALIZED (
        SELECT c.*, f.key AS first, v_lines AND c.is_due AND f.key IS NOT NULL AND NOT p.policed AS in_line,
               p.policed AND v_lines AND c.is_due AS newcomer
        FROM called c LEFT JOIN caps a ON a.task = c.task AND a.queue = c.queue
        CROSS JOIN LATERAL (
            SELECT CASE WHEN a.key IS NULL OR c.keys[1] LIKE 'c%'
                             AND headgate._text(c.keys[1]) COLLATE "C" < headgate._text(a.key) COLLATE "C"
                        THEN c.keys[1] ELSE a.key END AS key) AS f
        CROSS JOIN LATERAL (
            SELECT CASE WHEN v_policies THEN headgate._has_policy(c.task, c.queue, c.keys, false) ELSE false END AS policed
        ) AS p
        ORDER BY c.id COLLATE "C"
    ), stored AS (
        INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units,
                                   retry, timeout, unique_key, metadata, headers, retention, use_numbers, share, by_time,
                                   updates, unique_for)
        SELECT r.seq, r.id, r.task, r.queue, r.tenant, r.priority, v_now, r.args, r.keys, r.units, r.retry,
               r.timeout, r.unique_key, r.metadata, r.headers, r.retention, r.numbers, r.share, r.by_time,
               CASE WHEN r.updates THEN true END, r.unique_for
        FROM rows r
        ON CONFLICT (id) DO NOTHING RETURNING 1
    ), standing AS (
        INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, unique_key,
                                   unseen, waiting_on, units, refusals, share, tag, newcomer, start_by)
        SELECT r.seq, r.task, r.queue, r.tenant, r.priority, r.due,
               CASE WHEN r.in_line THEN 'waiting' WHEN r.is_due AND v_lines AND NOT r.newcomer THEN 'ready'
                    ELSE 'scheduled' END, r.keys,
               r.units, r.has_key, r.in_line, CASE WHEN r.in_line THEN r.first END,
               CASE WHEN NOT r.in_line THEN 0 WHEN r.first = r.keys[1] THEN r.units[1] ELSE 1 END,
               CASE WHEN r.in_line THEN 0 END, r.share, r.tag, r.newcomer, r.start_by
        FROM rows r
    ), noted AS (
        -- Of those with a share the first of each place is noted.
        SELECT r.first, CASE WHEN r.tag > 0 THEN r.queue END AS queue, CASE WHEN r.tag > 0 THEN r.priority END AS priority,
               nullif(min(r.tag), 0) AS tag
        FROM rows r WHERE r.in_line GROUP BY 1, 2, 3
    )
    SELECT (SELECT count(*) FROM stored), array_agg(n.first), array_agg(n.queue), array_agg(n.priority), array_agg(n.tag)
    INTO v_count, v_firsts, v_first_queues, v_first_priorities, v_first_tags FROM noted n;
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
    IF v_policies AND NOT v_changes THEN
        v_full := headgate._backlog_full(v_seqs, v_seqs || v_leaving, v_now);
        IF v_full.key IS NOT NULL THEN
            PERFORM headgate._refuse(v_seqs);
            problem := 'full';
            subject := v_full.key;
            detail := v_full.most;
            RETURN;
        END IF;
    END IF;
    IF v_firsts IS NOT NULL THEN
        INSERT INTO headgate.rechecks (key, queue, priority, tag)
        SELECT n.* FROM unnest(v_firsts, v_first_queues, v_first_priorities, v_first_tags) AS n;
    END IF;

    IF v_changes THEN
        PERFORM headgate._change_rules();
    ELSIF v_moves AND p_notify IS NOT TRUE THEN
        PERFORM headgate._hold_rules();
    END IF;
    IF v_moves THEN
        BEGIN
            v_held := headgate._hold_rivals(v_replaced, v_updated, coalesce(p_tasks, '{}'), p_uniques, v_seqs);
            IF v_held.problem IS NOT NULL OR v_held.gone THEN
                RAISE EXCEPTION SQLSTATE 'HG002';  -- which lets go of them: a caller may stay for long
            END IF;
        EXCEPTION WHEN SQLSTATE 'HG002' THEN
            PERFORM headgate._refuse(v_seqs);
            IF v_held.problem IS NULL THEN  -- what was to be updated has ended since: it stands in the way of no newcomer
                SELECT e.* INTO problem, subject, detail, states, rivals, again, ended FROM headgate._enqueue(
                    p_ids, p_tasks, p_queues, p_args, p_tenants, p_priorities, p_delays, p_ats, p_retries, p_timeouts,
                    p_uniques, p_conflicts, p_metadatas, p_headers, p_retentions, p_use_jobs, p_use_keys, p_use_units,
                    p_names, p_rates, p_declared, p_now, p_ttl, p_keep, p_by, p_notify, p_more) AS e;
                RETURN;
            END IF;
            problem := v_held.problem;
            subject := v_held.subject;
            detail := v_held.detail;
            RETURN;
        END;
    END IF;
    IF v_changes THEN
        PERFORM headgate._declare(p_declared, v_now);
        PERFORM headgate._refuse_if_full(v_seqs, v_seqs || v_leaving, v_now);
    END IF;
    IF v_numbers IS NOT NULL THEN
        SELECT array_agg(k.key ORDER BY k.n), array_agg(k.number ORDER BY k.n) INTO v_brought, v_numbers
        FROM unnest(p_use_jobs, p_use_keys, v_numbers) WITH ORDINALITY AS k (job, key, number, n)
        WHERE k.number IS NOT NULL AND rivals[coalesce(k.job, k.n)] IS NULL;
        PERFORM headgate._bring(v_brought, v_numbers, v_now, false);
    END IF;
    IF v_moves THEN
        -- A rival that has ended since then is not replaced.
        v_replaced := ARRAY(SELECT CASE WHEN o.seq IS NULL OR o.seq = ANY (v_held.there || v_seqs) THEN o.seq ELSE -1 END
                         FROM unnest(v_replaced) WITH ORDINALITY AS o (seq, n) ORDER BY o.n);
        SELECT o.touched, o.states INTO v_touched, states
        FROM headgate._replace(
            p_ids, v_seqs, v_replaced, v_updated, rivals, p_uniques, p_args, p_metadatas, p_headers,
            ARRAY(SELECT coalesce(u.at, v_now + u.delay) FROM unnest(p_delays, p_ats) WITH ORDINALITY AS u (delay, at, n)
                  ORDER BY u.n),
            v_at_mosts,
            ARRAY(SELECT coalesce(u.start_by, v_now + u.start_within)
                  FROM unnest(p_ids, v_start_bys, v_start_withins) WITH ORDINALITY AS u (id, start_by, start_within, n)
                  ORDER BY u.n),
            p_queues, v_shares, p_use_jobs, p_use_keys, p_use_units, v_each_number, v_now, p_keep, p_notify) AS o;
        ended := true;
    ELSIF v_changes THEN
        v_new := ARRAY(SELECT j.seq FROM headgate.live j WHERE j.seq = ANY (v_seqs) AND j.due <= v_now ORDER BY j.seq);
        PERFORM headgate._lock_keys(headgate._keys_of(v_new));
        v_touched := headgate._arrive(v_new, v_now, p_keep, v_touched, false);
    END IF;

    -- The state that each job got, before any of them is offered anything.
    IF states IS NOT NULL THEN
        NULL;
    ELSIF v_changes OR v_unique THEN
        -- A rival that is gone by now was unfinished when it was met.
        SELECT array_agg(CASE WHEN u.rival IS NULL AND (l.state = 'waiting' AND l.unseen OR l.newcomer) THEN 'ready'
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

-- What few jobs bring, as arrays with an entry for each job; NULL where none brings it.   p_jobs   how many jobs there are
CREATE OR REPLACE FUNCTION headgate._more(p_more json, p_jobs integer,
    OUT numbers bigint[], OUT shares text[], OUT by_times boolean[], OUT start_bys bigint[], OUT start_withins bigint[],
    OUT at_mosts bigint[], OUT unique_fors bigint[])
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_more ->> 'numbers' IS NOT NULL THEN
        numbers := ARRAY(SELECT n::bigint FROM json_array_elements_text(p_more -> 'numbers') AS n);
    END IF;
    IF p_more ->> 'jobs' IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(j.share ORDER BY j.n), array_agg(j.by_time ORDER BY j.n), array_agg(j.start_by ORDER BY j.n),
           array_agg(j.start_within ORDER BY j.n), array_agg(j.at_most ORDER BY j.n), array_agg(j.unique_for ORDER BY j.n)
    INTO shares, by_times, start_bys, start_withins, at_mosts, unique_fors
    FROM ROWS FROM (json_to_recordset(p_more -> 'jobs') AS (
        share text, by_time boolean, start_by bigint, start_within bigint, at_most bigint, unique_for bigint))
        WITH ORDINALITY AS j (share, by_time, start_by, start_within, at_most, unique_for, n);
    IF cardinality(shares) = 1 AND p_jobs > 1 THEN
        shares := array_fill(shares[1], ARRAY[p_jobs]);
        by_times := array_fill(by_times[1], ARRAY[p_jobs]);
        start_bys := array_fill(start_bys[1], ARRAY[p_jobs]);
        start_withins := array_fill(start_withins[1], ARRAY[p_jobs]);
        at_mosts := array_fill(at_mosts[1], ARRAY[p_jobs]);
        unique_fors := array_fill(unique_fors[1], ARRAY[p_jobs]);
    END IF;
    IF cardinality(array_remove(shares, NULL)) = 0 THEN
        shares := NULL;
    END IF;
END $$;

-- The tags of new jobs, in their order; 0 of those that are not due, or have no share.   See _tag.
CREATE OR REPLACE FUNCTION headgate._tags(p_queues text[], p_priorities smallint[], p_shares text[], p_by_times boolean[],
                                          p_due boolean[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT coalesce(p.last + sum(p.step) OVER (PARTITION BY u.queue, u.priority, u.share, u.due ORDER BY u.n), 0)::bigint
        FROM unnest(p_queues, p_priorities, p_shares, p_by_times, p_due)
            WITH ORDINALITY AS u (queue, priority, share, by_time, due, n)
        LEFT JOIN (
            SELECT g.queue, g.priority, g.share, g.by_time, headgate._last_tag(g.queue, g.priority, g.share) AS last,
                   headgate._step(g.queue, g.share, g.by_time) AS step
            FROM (SELECT DISTINCT d.queue, d.priority, d.share, coalesce(d.by_time, false) AS by_time
                  FROM unnest(p_queues, p_priorities, p_shares, p_by_times) AS d (queue, priority, share, by_time)
                  WHERE d.share IS NOT NULL) AS g
        ) AS p ON u.due AND p.queue = u.queue AND p.priority = u.priority AND p.share = u.share
            AND p.by_time = coalesce(u.by_time, false)
        ORDER BY u.n);
END $$;

-- Refuse a call that declares a limit and brings a job too many for it: the declaration is undone, too.
CREATE OR REPLACE FUNCTION headgate._refuse_if_full(p_seqs bigint[], p_except bigint[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    f record;
BEGIN
    IF headgate._any_policy() THEN
        f := headgate._backlog_full(p_seqs, p_except, p_now);
        IF f.key IS NOT NULL THEN
            RAISE EXCEPTION 'as many jobs wait as may' USING ERRCODE = 'HG006', DETAIL = json_build_array(f.key, f.most)::text;
        END IF;
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
