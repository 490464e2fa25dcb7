-- Unique keys of new jobs: what they meet, and how one job takes the place of another, or updates it.

-- What the unique keys of new jobs meet, each in turn: an unfinished job, stored or of the same call, or one that has ended
-- and keeps its key for a time.
-- `rivals`   ids of jobs that stand for new ones; `replaced`: jobs that new ones replace; `updated`: those that new ones
--            update (by the time their rows are locked, some may have ended or begun to run).   `problem` of the first job
--            in order that has one.
-- The caller holds the unique keys: rivals may go, but none can come.   Reads: live_unique, kept_keys_key.
CREATE OR REPLACE FUNCTION headgate._conflicts(p_ids text[], p_seqs bigint[], p_tenants text[], p_uniques text[],
    p_conflicts text[], p_now bigint,
    OUT rivals text[], OUT replaced bigint[], OUT updated bigint[], OUT problem text, OUT subject text, OUT detail text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    -- after each: which of them has its key; 0 the stored one
    v_has  integer[] := array_fill(0, ARRAY[cardinality(p_ids)]);
    r      record;
    rival  record;
BEGIN
    rivals := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    replaced := array_fill(NULL::bigint, ARRAY[cardinality(p_ids)]);
    updated := replaced;
    FOR r IN
        SELECT u.n::integer, lag(u.n::integer) OVER w AS before, coalesce(l.seq, k.job) AS seq, j.id,
               coalesce(l.state, k.state) AS state
        FROM unnest(p_tenants, p_uniques) WITH ORDINALITY AS u (tenant, key, n)
        LEFT JOIN headgate.live l ON l.tenant = u.tenant AND l.unique_key = u.key AND NOT l.key_free
        LEFT JOIN LATERAL headgate._keeper(u.tenant, u.key, p_now) AS k ON l.seq IS NULL
        LEFT JOIN headgate.jobs j ON j.seq = coalesce(l.seq, k.job)
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
        ELSIF rival.state NOT IN ('scheduled', 'ready', 'waiting', 'new') OR p_conflicts[r.n] = 'raise' THEN
            problem := 'rival';
            subject := rival.id;
            detail := rival.state || ' ' || p_uniques[r.n];
            RETURN;
        ELSIF p_conflicts[r.n] = 'replace' THEN
            replaced[r.n] := rival.seq;
        ELSIF p_conflicts[r.n] = 'update' THEN
            updated[r.n] := rival.seq;
            rivals[r.n] := rival.id;
            v_has[r.n] := coalesce(v_has[r.before], 0);
        ELSE
            problem := 'rival';
            subject := rival.id;
            detail := rival.state || ' ' || p_uniques[r.n];
            RETURN;
        END IF;
    END LOOP;
END $$;

-- The job that has ended and keeps a unique key until later than now, if any.   Reads: kept_keys_key, ended by primary key.
CREATE OR REPLACE FUNCTION headgate._keeper(p_tenant text, p_key text, p_now bigint) RETURNS TABLE (job bigint, state text)
LANGUAGE sql STABLE AS $$
    SELECT k.job, e.state FROM headgate.kept_keys k JOIN headgate.ended e ON e.seq = k.job AND e.unique_until = k.until
    WHERE k.tenant = p_tenant AND k.key = p_key AND k.until > p_now ORDER BY k.until DESC LIMIT 1
$$;

-- Hold the jobs that new ones replace or update; returns those that are still there, or what is in the way of it: a job
-- that runs, or has started before, or is of another task. `gone` says that one that was to be updated has ended: the
-- caller begins anew.
-- p_updated, p_tasks   which job each new one updates, and its task   p_own   the new jobs themselves
-- Locks: the jobs, in order (3), waiting if need be.
CREATE OR REPLACE FUNCTION headgate._hold_rivals(p_replaced bigint[], p_updated bigint[], p_tasks text[], p_uniques text[],
    p_own bigint[],
    OUT there bigint[], OUT gone boolean, OUT problem text, OUT subject text, OUT detail text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    rival record;
    n     integer;
BEGIN
    there := '{}';
    FOR rival IN SELECT l.seq, j.id, l.state, l.attempt, l.task FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq
             WHERE l.seq = ANY (p_replaced || p_updated) ORDER BY l.seq FOR UPDATE OF l LOOP
        subject := rival.id;
        n := coalesce(array_position(p_updated, rival.seq), array_position(p_replaced, rival.seq));
        IF rival.state = 'running' THEN  -- since a moment ago
            problem := 'rival';
            detail := 'running ' || p_uniques[n];
            RETURN;
        ELSIF rival.seq = ANY (p_updated) AND rival.attempt > 0 THEN
            problem := 'started';
            detail := p_uniques[n];
            RETURN;
        END IF;
        FOR n IN SELECT u.n FROM unnest(p_updated, p_tasks) WITH ORDINALITY AS u (seq, task, n)
                 WHERE u.seq = rival.seq AND u.task <> rival.task ORDER BY u.n LIMIT 1 LOOP
            problem := 'task';
            detail := json_build_array(rival.task, p_uniques[n])::text;
            RETURN;
        END LOOP;
        IF rival.seq <> ALL (p_own) THEN
            there := there || rival.seq;
        END IF;
    END LOOP;
    subject := NULL;
    gone := EXISTS (SELECT 1 FROM unnest(p_updated) AS u (seq) WHERE u.seq <> ALL (there || p_own));
END $$;

-- A job that has not started takes over what a new one brings, and its due time within a bound (p_at_most after it was
-- enqueued). It is scheduled then; returns the keys to offer.   The caller holds it, and lets it arrive.
-- p_queue, p_share   a job that has a share takes that of a new one in the same queue
CREATE OR REPLACE FUNCTION headgate._update(p_seq bigint, p_args text, p_keys text[], p_units bigint[], p_numbers bigint[],
    p_metadata text, p_headers text, p_due bigint, p_at_most bigint, p_start_by bigint, p_queue text, p_share text)
RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_touched text[] := headgate._give_back(ARRAY[p_seq], false);
BEGIN
    UPDATE headgate.jobs j
    SET args = p_args, use_keys = p_keys, use_units = p_units, use_numbers = p_numbers, metadata = p_metadata,
        headers = p_headers, updates = true,
        share = CASE WHEN j.share IS NULL OR j.queue <> p_queue THEN j.share ELSE coalesce(p_share, j.share) END
    WHERE j.seq = p_seq;
    UPDATE headgate.live l
    SET use_keys = p_keys, use_units = p_units, start_by = p_start_by, state = 'scheduled', waiting_on = NULL,
        offered_by = NULL, units = 0, refusals = NULL, set_aside = false, lacks_thread = false, unseen = false,
        newcomer = false,
        share = CASE WHEN l.share IS NULL OR l.queue <> p_queue THEN l.share ELSE coalesce(p_share, l.share) END,
        due = least(p_due, (SELECT j.enqueued_at + p_at_most FROM headgate.jobs j WHERE j.seq = p_seq))
    WHERE l.seq = p_seq;
    RETURN v_touched;
END $$;

-- In a caller's transaction a job that was updated takes a newcomer's place, as _enqueue gives it.
CREATE OR REPLACE FUNCTION headgate._stand_anew(p_seq bigint, p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    j       record;
    v_first text;
    v_tag   bigint;
BEGIN
    SELECT l.*, o.by_time, (headgate._uses(l.task, l.queue, l.use_keys, l.use_units, headgate._any_caps())).keys[1] AS first,
           headgate._any_policy() AND headgate._has_policy(l.task, l.queue, l.use_keys, false) AS policed
    INTO j FROM headgate.live l JOIN headgate.jobs o ON o.seq = l.seq WHERE l.seq = p_seq;
    IF j.due > p_now THEN
        RETURN;
    END IF;
    v_tag := CASE WHEN j.share IS NULL THEN 0
                  ELSE headgate._last_tag(j.queue, j.priority, j.share) + headgate._step(j.queue, j.share, j.by_time) END;
    v_first := CASE WHEN NOT j.policed THEN j.first END;
    UPDATE headgate.live l
    SET tag = v_tag, newcomer = j.policed, unseen = v_first IS NOT NULL, waiting_on = v_first,
        state = CASE WHEN j.policed THEN 'scheduled' WHEN v_first IS NOT NULL THEN 'waiting' ELSE 'ready' END,
        units = CASE WHEN v_first IS NULL THEN 0 WHEN v_first = j.use_keys[1] THEN j.use_units[1] ELSE 1 END,
        refusals = CASE WHEN v_first IS NOT NULL THEN 0 END
    WHERE l.seq = p_seq;
    INSERT INTO headgate.rechecks (key, queue, priority, tag)
    SELECT v_first, CASE WHEN v_tag > 0 THEN j.queue END, CASE WHEN v_tag > 0 THEN j.priority END, nullif(v_tag, 0)
    WHERE v_first IS NOT NULL;
END $$;

-- Jobs replace or update others: all of the call come one after the other, each after what it replaces has left.
-- In a caller's transaction (p_notify) no key is locked: `rechecks` has the next sweep pass on what they were promised.
-- p_updated   which job each updates, with what it brings: p_args … p_shares, an entry for each
-- Returns the keys to offer and the state that each job got when it came.
-- Locks: keys (4). The caller holds the replaced and updated jobs.
CREATE OR REPLACE FUNCTION headgate._replace(p_ids text[], p_seqs bigint[], p_replaced bigint[], p_updated bigint[],
    p_rivals text[], p_uniques text[], p_args text[], p_metadatas text[], p_headers text[], p_dues bigint[],
    p_at_mosts bigint[], p_start_bys bigint[], p_queues text[], p_shares text[], p_use_jobs integer[],
    p_use_keys text[], p_use_units bigint[], p_use_numbers bigint[], p_now bigint, p_keep bigint[], p_notify boolean, OUT touched text[],
        OUT states text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    v_gone text[];
    u      record;
BEGIN
    touched := '{}';
    states := '{}';
    IF p_notify IS NOT TRUE THEN
        PERFORM headgate._lock_keys(headgate._keys_of(p_seqs || p_replaced || p_updated) || p_use_keys);
    END IF;
    -- While both are unfinished, neither has the key.
    UPDATE headgate.live j SET unique_key = NULL WHERE j.seq = ANY (p_replaced) AND j.seq <> ALL (p_seqs);
    FOR n IN 1 .. cardinality(p_ids) LOOP
        IF p_replaced[n] IS NOT NULL THEN
            v_gone := headgate._cancel_pending(p_replaced[n], p_now, p_keep);
            IF p_notify THEN
                INSERT INTO headgate.rechecks (key) SELECT g.key FROM unnest(v_gone) AS g (key);
            ELSE
                touched := touched || v_gone;
            END IF;
            IF p_seqs[n] <> ALL (array_remove(p_replaced, NULL)) THEN
                UPDATE headgate.live j SET unique_key = p_uniques[n] WHERE j.seq = p_seqs[n];
            END IF;
        ELSIF p_updated[n] IS NOT NULL THEN
            SELECT nullif(array_agg(k.key ORDER BY k.n), '{}') AS keys, array_agg(k.units ORDER BY k.n) AS units,
                   CASE WHEN count(k.number) > 0 THEN array_agg(k.number ORDER BY k.n) END AS numbers
            INTO u FROM unnest(p_use_jobs, p_use_keys, p_use_units, p_use_numbers)
                WITH ORDINALITY AS k (job, key, units, number, n)
            WHERE coalesce(k.job, k.n) = n;
            v_gone := headgate._update(p_updated[n], p_args[n], u.keys, u.units, u.numbers, p_metadatas[n], p_headers[n],
                                       p_dues[n], p_at_mosts[n], p_start_bys[n], p_queues[n], p_shares[n]);
            PERFORM headgate._bring(u.keys, u.numbers, p_now, false);
            IF p_notify THEN
                INSERT INTO headgate.rechecks (key) SELECT g.key FROM unnest(v_gone) AS g (key);
                PERFORM headgate._stand_anew(p_updated[n], p_now);
            ELSE
                touched := touched || v_gone;
                IF EXISTS (SELECT 1 FROM headgate.live j WHERE j.seq = p_updated[n] AND j.due <= p_now) THEN
                    touched := headgate._arrive(p_updated[n : n], p_now, p_keep, touched, false);
                END IF;
            END IF;
        END IF;
        IF p_notify IS NOT TRUE AND EXISTS (
            SELECT 1 FROM headgate.live j WHERE j.seq = p_seqs[n] AND j.due <= p_now AND j.state = 'scheduled') THEN
            touched := headgate._arrive(p_seqs[n : n], p_now, p_keep, touched, false);
        END IF;
        -- (A rival that is gone by now was unfinished when it was met.)
        states := states || coalesce(headgate._state(coalesce(p_rivals[n], p_ids[n])), 'ready');
    END LOOP;
END $$;
