-- Import, in one transaction: what is there is held and shown; what is to become of it is decided above
-- (lifecycle.py) and written down.

-- Hold all that an import may touch.   p_jobs   JSON array of the records
-- Records whose id is new get a row at once, so that no other job can take the id; one that is refused is removed
-- again.
-- Locks: unique keys, then new ids (0), rules (1), jobs (3), the keys of all records (4).   Reads: jobs_id.
CREATE OR REPLACE FUNCTION headgate._import_hold(p_jobs json, p_declared json, p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_ids   text[] := ARRAY(SELECT DISTINCT d.id FROM json_to_recordset(p_jobs) AS d (id text));
    v_known bigint[];
    v_seqs  bigint[];
BEGIN
    LOOP
        BEGIN
            v_known := ARRAY(SELECT j.seq FROM headgate.jobs j WHERE j.id = ANY (v_ids));
            PERFORM headgate._lock_uniques(array_agg(u.tenant), array_agg(u.key)) FROM (
                SELECT d.tenant, d.unique_key FROM json_to_recordset(p_jobs) AS d (tenant text, unique_key text)
                UNION ALL SELECT j.tenant, j.unique_key FROM headgate.jobs j WHERE j.seq = ANY (v_known)
            ) AS u (tenant, key);
            v_known := v_known || headgate._import_rows(p_jobs, p_now);
            IF p_declared IS NOT NULL AND headgate._differs(p_declared) THEN
                PERFORM headgate._change_rules();
            ELSE
                PERFORM headgate._hold_rules();
            END IF;
            v_seqs := ARRAY(SELECT j.seq FROM headgate.jobs j WHERE j.id = ANY (v_ids) ORDER BY j.id FOR UPDATE);
            PERFORM 1 FROM headgate.live l WHERE l.seq = ANY (v_seqs) ORDER BY l.seq FOR UPDATE;
            EXIT WHEN cardinality(v_seqs) = cardinality(v_ids)
                AND NOT EXISTS (SELECT unnest(v_seqs) EXCEPT SELECT unnest(v_known));
            RAISE EXCEPTION SQLSTATE 'HG003';
        EXCEPTION WHEN SQLSTATE 'HG003' THEN
            NULL;  -- a job that was there was deleted before it could be locked, or another one took its id, whose
                   -- unique key is not held here: all is let go, and begun anew
        END;
    END LOOP;
    PERFORM headgate._lock_keys(headgate._keys_of(v_seqs) || headgate._needs_of(v_seqs) || ARRAY(
        SELECT unnest(u.keys)
        FROM json_to_recordset(p_jobs) AS d (task text, queue text, keys text[], units bigint[]),
             headgate._uses(d.task, d.queue, d.keys, d.units, (SELECT headgate._any_caps())) AS u));
END $$;

-- New ids get rows that are never due, which is how they are known until their fate is decided.
-- Returns the numbers that they got, if they are new.
CREATE OR REPLACE FUNCTION headgate._import_rows(p_jobs json, p_now bigint) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now  bigint := headgate._now(p_now);
    v_seqs bigint[] := ARRAY(SELECT nextval('headgate.arrivals') FROM generate_series(1, json_array_length(p_jobs)));
BEGIN
    WITH made AS (
        INSERT INTO headgate.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units,
                                   retry, timeout, unique_key, metadata, headers, retention, use_numbers, share, by_time,
                                   updates, unique_for)
        SELECT v_seqs[d.n], d.id, d.task, d.queue, d.tenant, d.priority, coalesce(d.enqueued_at, v_now), d.args, d.keys,
               d.units, d.retry, d.timeout, d.unique_key, d.metadata, d.headers, d.retention, d.numbers, d.share,
               d.by_time, d.updates, d.unique_for
        FROM ROWS FROM (json_to_recordset(p_jobs) AS (
            id text, task text, queue text, args text, tenant text, priority smallint, keys text[], units bigint[],
            retry text, timeout bigint, unique_key text, metadata text, headers text, retention bigint, enqueued_at bigint,
            numbers bigint[], share text, by_time boolean, updates boolean, unique_for bigint, start_by bigint,
            start_within bigint))
            WITH ORDINALITY AS d (id, task, queue, args, tenant, priority, keys, units, retry, timeout, unique_key,
                                  metadata, headers, retention, enqueued_at, numbers, share, by_time, updates, unique_for,
                                  start_by, start_within, n)
        ORDER BY d.id COLLATE "C", d.n
        ON CONFLICT (id) DO NOTHING
        RETURNING seq, id, task, queue, tenant, priority, enqueued_at
    )
    INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, start_by)
    SELECT m.seq, m.task, m.queue, m.tenant, m.priority, 4611686018427387904, 'scheduled', (
        SELECT coalesce(d.start_by, m.enqueued_at + d.start_within)
        FROM json_to_recordset(p_jobs) AS d (id text, start_by bigint, start_within bigint) WHERE d.id = m.id LIMIT 1)
    FROM made m;
    RETURN v_seqs;
END $$;

-- What is there for each record of a wave, in order.   p_jobs   JSON array of the records, no id or unique key twice
-- The caller holds it all.   Reads: jobs_id, live_unique.
CREATE OR REPLACE FUNCTION headgate._import_begin(p_jobs json, p_now bigint)
RETURNS TABLE (n integer, seq bigint, made boolean, state text, due bigint, history json, rival text, rival_state text,
    rival_key text)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    PERFORM headgate._import_rows(p_jobs, p_now);  -- once more, for ids whose first record was refused
    RETURN QUERY
    SELECT d.n::integer, j.seq, coalesce(l.due = 4611686018427387904, false), coalesce(l.state, e.state),
           coalesce(l.due, e.due), headgate._history(j.seq), o.id, coalesce(x.state, k.state), j.unique_key
    FROM ROWS FROM (json_to_recordset(p_jobs) AS (id text)) WITH ORDINALITY AS d (id, n)
    JOIN headgate.jobs j ON j.id = d.id
    LEFT JOIN headgate.live l ON l.seq = j.seq LEFT JOIN headgate.ended e ON e.seq = j.seq
    LEFT JOIN headgate.live x ON x.tenant = j.tenant AND x.unique_key = j.unique_key AND NOT x.key_free
    LEFT JOIN LATERAL headgate._keeper(j.tenant, j.unique_key, p_now) AS k ON x.seq IS NULL AND k.job <> j.seq
    LEFT JOIN headgate.jobs o ON o.seq = coalesce(x.seq, k.job)
    ORDER BY d.n;
END $$;

-- Every attempt of a job that has ended, the one that ended the job included.   Reads: attempts and ended by primary
-- key.
CREATE OR REPLACE FUNCTION headgate._history(p_seq bigint) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_agg(json_build_array(h.number, h.outcome, h.started_at, h.ended_at, h.worker, h.error)
        ORDER BY h.number) FROM (
        SELECT a.number, a.outcome, a.started_at, a.ended_at, a.worker, a.error FROM headgate.attempts a
            WHERE a.job = p_seq
        UNION ALL
        SELECT e.attempt, e.outcome, e.started_at, e.ended_at, coalesce(e.worker, ''), e.error FROM headgate.ended e
        WHERE e.seq = p_seq AND e.outcome IS NOT NULL AND e.started_at IS NOT NULL
    ) AS h
$$;

-- p_taken     JSON array, in the order of the import: seq, refused, made, state, due, tries, retry, attempts
-- p_touched   keys touched by the waves before this one; p_last: this is the last wave
-- Returns the state of each record (NULL: refused here, by a unique key that was taken at this moment).
-- Locks: keys of limits that are declared here, under the exclusive rules; waiters (5). The caller holds all else.
CREATE OR REPLACE FUNCTION headgate._import_end(p_taken json, p_declared json, p_now bigint, p_ttl bigint,
    p_keep bigint[], p_by text,
                                                p_touched text[], p_last boolean,
                                                OUT states text[], OUT touched text[], OUT ended boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now  bigint := headgate._now(p_now);
    v_seqs bigint[];
    r      record;
    j      record;
    last   json;
BEGIN
    touched := p_touched;
    states := '{}';
    ended := false;
    IF p_declared IS NOT NULL THEN
        PERFORM headgate._declare(p_declared, v_now);
    END IF;
    v_seqs := ARRAY(SELECT (t ->> 'seq')::bigint FROM json_array_elements(p_taken) AS t);
    PERFORM headgate._lock_keys(touched || headgate._keys_of(v_seqs) || headgate._needs_of(v_seqs));
    FOR r IN SELECT t.* FROM json_to_recordset(p_taken) AS t (
        seq bigint, refused boolean, made boolean, state text, due bigint, tries integer, retry text, attempts json)
    LOOP
        SELECT o.retention, coalesce(l.state, e.state) AS state, coalesce(l.due, e.due) AS due,
               coalesce(l.progress, e.progress) AS progress, l.suspicion, l.lost, l.lost_after,
               coalesce(l.start_by, e.start_by) AS start_by, o.use_keys, o.use_numbers
        INTO j FROM headgate.jobs o LEFT JOIN headgate.live l ON l.seq = o.seq LEFT JOIN headgate.ended e
            ON e.seq = o.seq
        WHERE o.seq = r.seq;
        IF r.refused THEN
            IF r.made THEN
                PERFORM headgate._unmake(r.seq);
            END IF;
            states := array_append(states, NULL);
            CONTINUE;
        END IF;
        BEGIN
            IF NOT r.made AND j.state IN ('scheduled', 'ready', 'waiting') THEN
                touched := touched || headgate._give_back(ARRAY[r.seq], false);
            END IF;
            IF r.made AND j.use_numbers IS NOT NULL THEN
                PERFORM headgate._bring(j.use_keys, j.use_numbers, v_now, false);
                touched := touched || j.use_keys;
            END IF;
            last := r.attempts -> -1;
            DELETE FROM headgate.attempts a WHERE a.job = r.seq;
            INSERT INTO headgate.attempts (job, number, outcome, started_at, ended_at, worker, error)
            SELECT r.seq, (a ->> 0)::integer, a ->> 1, (a ->> 2)::bigint, (a ->> 3)::bigint, a ->> 4, a ->> 5
            FROM json_array_elements(r.attempts) AS a
            WHERE r.state = 'scheduled' OR (a ->> 0)::integer < json_array_length(r.attempts);
            UPDATE headgate.jobs x SET retry = r.retry WHERE x.seq = r.seq AND x.retry <> r.retry;
            DELETE FROM headgate.live x WHERE x.seq = r.seq;
            DELETE FROM headgate.ended x WHERE x.seq = r.seq;
            IF r.state = 'scheduled' THEN
                PERFORM headgate._schedule(r.seq, r.due, json_array_length(r.attempts), r.tries, last ->> 5,
                                           j.progress, j.start_by);
                UPDATE headgate.live x SET suspicion = j.suspicion, lost = j.lost, lost_after = j.lost_after
                WHERE x.seq = r.seq AND j.suspicion + j.lost > 0;
                IF r.due <= v_now THEN
                    touched := headgate._arrive(ARRAY[r.seq], v_now, p_keep, touched, false);
                END IF;
            ELSE
                -- Its last attempt runs for as long as it takes to end.
                INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, attempt, tries, worker,
                                           started_at, progress, start_by)
                SELECT x.seq, x.task, x.queue, x.tenant, x.priority, CASE WHEN r.made THEN r.due ELSE j.due END,
                       'running', json_array_length(r.attempts), r.tries, last ->> 4, (last ->> 2)::bigint, j.progress, j.start_by
                FROM headgate.jobs x WHERE x.seq = r.seq;
                PERFORM headgate._end(
                    NULL, NULL, NULL, ARRAY[r.seq], ARRAY[left(last ->> 1, 1)],
                    ARRAY[CASE WHEN r.state <> 'succeeded' THEN last ->> 5 END], '{NULL}', v_now, p_keep,
                    (last ->> 3)::bigint);
                UPDATE headgate.ended x SET error = last ->> 5 WHERE x.seq = r.seq AND r.state = 'succeeded';
            END IF;
            ended := ended OR r.state <> 'scheduled';
            states := array_append(states, coalesce((SELECT x.state FROM headgate.live x WHERE x.seq = r.seq),
                                                    r.state));
        EXCEPTION WHEN unique_violation THEN
            IF r.made THEN
                PERFORM headgate._unmake(r.seq);
            END IF;
            states := array_append(states, NULL);
        END;
    END LOOP;
    IF p_last THEN
        PERFORM headgate._offer(touched, v_now, p_ttl);
        PERFORM headgate.wake(true, ended, p_by);
    END IF;
END $$;

-- A record that was refused leaves nothing.
CREATE OR REPLACE FUNCTION headgate._unmake(p_seq bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM headgate.live x WHERE x.seq = p_seq;
    DELETE FROM headgate.jobs x WHERE x.seq = p_seq;
END $$;
