-- Import, in one transaction: what is there is held and shown; what is to become of it is decided above
-- (lifecycle.py) and written down.

-- Hold all that an import may touch.   p_jobs   JSON array of the records
-- Records whose id is new get a row at once, so that nobody else can take the id; one that is refused is removed again.
-- Locks: unique keys, then new ids (0), rules (1), jobs (3), the keys of all records (4).   Reads: jobs_id.
CREATE OR REPLACE FUNCTION headgate._import_hold(p_jobs json, p_declared json, p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_seqs bigint[];
BEGIN
    PERFORM headgate._lock_uniques(array_agg(u.tenant), array_agg(u.key)) FROM (
        SELECT d.tenant, d.unique_key FROM json_to_recordset(p_jobs) AS d (tenant text, unique_key text)
        UNION ALL SELECT j.tenant, j.unique_key FROM json_to_recordset(p_jobs) AS d (id text) JOIN headgate.jobs j
            ON j.id = d.id
    ) AS u (tenant, key);
    LOOP
        BEGIN
            PERFORM headgate._import_rows(p_jobs, p_now);
            IF p_declared IS NOT NULL AND headgate._differs(p_declared) THEN
                PERFORM headgate._change_rules();
            ELSE
                PERFORM headgate._hold_rules();
            END IF;
            v_seqs := ARRAY(SELECT j.seq FROM headgate.jobs j
                            WHERE j.id IN (SELECT d.id FROM json_to_recordset(p_jobs) AS d (id text)) ORDER BY j.id
                                FOR UPDATE);
            EXIT WHEN cardinality(v_seqs) = (SELECT count(DISTINCT d.id) FROM json_to_recordset(p_jobs) AS d (id text));
            RAISE EXCEPTION SQLSTATE 'HG003';
        EXCEPTION WHEN SQLSTATE 'HG003' THEN
            NULL;  -- a job that was there was deleted before it could be locked: all is let go, and begun anew
        END;
    END LOOP;
    PERFORM headgate._lock_keys(headgate._keys_of(v_seqs) || ARRAY(
        SELECT unnest(u.keys)
        FROM json_to_recordset(p_jobs) AS d (task text, queue text, keys text[], units bigint[]),
             headgate._uses(d.task, d.queue, d.keys, d.units, (SELECT headgate._any_caps())) AS u));
END $$;

-- New ids get rows that are never due, which is how they are known until their fate is decided.
CREATE OR REPLACE FUNCTION headgate._import_rows(p_jobs json, p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now  bigint := headgate._now(p_now);
    v_seqs bigint[] := ARRAY(SELECT nextval('headgate.arrivals') FROM generate_series(1, json_array_length(p_jobs)));
BEGIN
    INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys,
        use_units, retry,
                               timeout, metadata, retention)
    SELECT v_seqs[d.n], d.id, d.task, d.queue, d.tenant, d.priority, 4611686018427387904, 'scheduled',
           coalesce(d.enqueued_at, v_now), d.args, d.keys, d.units, d.retry, d.timeout, d.metadata, d.retention
    FROM ROWS FROM (json_to_recordset(p_jobs) AS (
        id text, task text, queue text, args text, tenant text, priority smallint, keys text[], units bigint[],
            retry text,
        timeout bigint, metadata text, retention bigint, enqueued_at bigint))
        WITH ORDINALITY AS d (id, task, queue, args, tenant, priority, keys, units, retry, timeout, metadata, retention,
            enqueued_at, n)
    ORDER BY d.id COLLATE "C", d.n
    ON CONFLICT (id) DO NOTHING;
END $$;

-- What is there for each record of a wave, in order.   p_jobs   JSON array of the records, no id or unique key twice
-- The caller holds it all.   Reads: jobs_id, jobs_unique.
CREATE OR REPLACE FUNCTION headgate._import_begin(p_jobs json, p_now bigint)
RETURNS TABLE (n integer, seq bigint, made boolean, state text, due bigint, history json, rival text, rival_state text,
    rival_key text)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    PERFORM headgate._import_rows(p_jobs, p_now);  -- once more, for ids whose first record was refused
    RETURN QUERY
    SELECT d.n::integer, j.seq, m.made, j.state, j.due, headgate._history(j.seq), x.id, x.state, m.key
    FROM ROWS FROM (json_to_recordset(p_jobs) AS (id text, unique_key text)) WITH ORDINALITY AS d (id, unique_key, n)
    JOIN headgate.jobs j ON j.id = d.id
    CROSS JOIN LATERAL (
        SELECT j.due = 4611686018427387904 AS made,
               CASE WHEN j.due = 4611686018427387904 THEN d.unique_key ELSE j.unique_key END AS key) AS m
    LEFT JOIN headgate.jobs x ON x.tenant = j.tenant AND x.unique_key = m.key AND x.state IN ('scheduled', 'ready',
        'waiting', 'running')
    ORDER BY d.n;
END $$;

-- Every attempt of a job that has ended, the one that ended the job included.   Reads: attempts by primary key.
CREATE OR REPLACE FUNCTION headgate._history(p_seq bigint) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_agg(json_build_array(h.number, h.outcome, h.started_at, h.ended_at, h.worker, h.error)
        ORDER BY h.number) FROM (
        SELECT a.number, a.outcome, a.started_at, a.ended_at, a.worker, a.error FROM headgate.attempts a
            WHERE a.job = p_seq
        UNION ALL
        SELECT j.attempt, j.outcome, j.started_at, j.ended_at, coalesce(j.worker, ''), j.error FROM headgate.jobs j
        WHERE j.seq = p_seq AND j.outcome IS NOT NULL AND j.started_at IS NOT NULL AND j.ended_at IS NOT NULL
    ) AS h
$$;

-- p_taken     JSON array, in the order of the import: seq, refused, made, state, due, tries, retry, unique_key,
--             attempts
-- p_touched   keys touched by the waves before this one; p_last: this is the last wave
-- Returns the state of each record (NULL: refused here, by a unique key that somebody took at this moment).
-- Locks: keys of limits that are declared here, under the exclusive rules; waiters (5). The caller holds all else.
CREATE OR REPLACE FUNCTION headgate._import_end(p_taken json, p_declared json, p_now bigint, p_ttl bigint,
    p_keep bigint[], p_by text,
                                                p_touched text[], p_last boolean,
                                                OUT states text[], OUT touched text[], OUT ended boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now bigint := headgate._now(p_now);
    r     record;
    j     record;
    last  json;
BEGIN
    touched := p_touched;
    states := '{}';
    ended := false;
    IF p_declared IS NOT NULL THEN
        touched := touched || headgate._declare(p_declared, v_now);
    END IF;
    PERFORM headgate._lock_keys(touched || headgate._keys_of(ARRAY(SELECT (t ->> 'seq')::bigint
        FROM json_array_elements(p_taken) AS t)));
    FOR r IN SELECT t.* FROM json_to_recordset(p_taken) AS t (
        seq bigint, refused boolean, made boolean, state text, due bigint, tries integer, retry text, unique_key text,
            attempts json)
    LOOP
        SELECT x.* INTO j FROM headgate.jobs x WHERE x.seq = r.seq;
        IF r.refused THEN
            IF r.made THEN
                DELETE FROM headgate.jobs x WHERE x.seq = r.seq;
            END IF;
            states := array_append(states, NULL);
            CONTINUE;
        END IF;
        BEGIN
            IF NOT r.made AND j.state IN ('scheduled', 'ready', 'waiting') THEN
                touched := touched || headgate._give_back(ARRAY[r.seq]);
            END IF;
            last := r.attempts -> -1;
            DELETE FROM headgate.attempts a WHERE a.job = r.seq;
            INSERT INTO headgate.attempts (job, number, outcome, started_at, ended_at, worker, error)
            SELECT r.seq, (a ->> 0)::integer, a ->> 1, (a ->> 2)::bigint, (a ->> 3)::bigint, a ->> 4, a ->> 5
            FROM json_array_elements(r.attempts) AS a
            WHERE r.state = 'scheduled' OR (a ->> 0)::integer < json_array_length(r.attempts);
            UPDATE headgate.jobs x
            SET retry = r.retry, tries = r.tries, attempt = json_array_length(r.attempts), waiting_on = NULL,
                offered_by = NULL, units = 0,
                set_aside = false, fresh = false, refusals = NULL, cancel_requested = false, error = last ->> 5,
                    result = NULL,
                unique_key = CASE WHEN r.made THEN r.unique_key ELSE x.unique_key END,
                state = r.state, due = CASE WHEN r.state = 'scheduled' OR r.made THEN r.due ELSE x.due END,
                worker = CASE WHEN r.state <> 'scheduled' THEN last ->> 4 END,
                started_at = CASE WHEN r.state <> 'scheduled' THEN (last ->> 2)::bigint END,
                ended_at = CASE WHEN r.state <> 'scheduled' THEN (last ->> 3)::bigint END,
                outcome = CASE WHEN r.state <> 'scheduled' THEN last ->> 1 END,
                expires_at = CASE WHEN r.state <> 'scheduled' THEN v_now + coalesce(x.retention,
                    CASE r.state WHEN 'succeeded' THEN p_keep[1] WHEN 'failed' THEN p_keep[2] ELSE p_keep[3] END) END
            WHERE x.seq = r.seq;
            IF r.state = 'scheduled' AND r.due <= v_now THEN
                touched := headgate._arrive(ARRAY[r.seq], v_now, touched);
            END IF;
            ended := ended OR r.state <> 'scheduled';
            states := array_append(states, (SELECT x.state FROM headgate.jobs x WHERE x.seq = r.seq));
        EXCEPTION WHEN unique_violation THEN
            IF r.made THEN
                DELETE FROM headgate.jobs x WHERE x.seq = r.seq;
            END IF;
            states := array_append(states, NULL);
        END;
    END LOOP;
    IF p_last THEN
        PERFORM headgate._offer(touched, v_now, p_ttl);
        PERFORM headgate.wake(true, ended, p_by);
    END IF;
END $$;
