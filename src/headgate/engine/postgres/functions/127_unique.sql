-- Unique keys of new jobs: what they meet, and how one job takes the place of another.

-- What the unique keys of new jobs meet, each in turn: an unfinished job, stored or of the same call.
-- `rivals`   ids of jobs that stand for new ones; `replaced`: jobs that new ones replace (by the time their rows are
--            locked, some may have ended or begun to run).   `problem` of the first job in order that has one.
-- The caller holds the unique keys: rivals may go, but none can come.   Reads: live_unique.
CREATE OR REPLACE FUNCTION headgate._conflicts(p_ids text[], p_seqs bigint[], p_tenants text[], p_uniques text[],
    p_conflicts text[],
    OUT rivals text[], OUT replaced bigint[], OUT problem text, OUT subject text, OUT detail text)
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
            replaced[r.n] := rival.seq;
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
CREATE OR REPLACE FUNCTION headgate._replace(p_ids text[], p_seqs bigint[], p_replaced bigint[], p_rivals text[],
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
        PERFORM headgate._declare(p_declared, p_now);
    END IF;
    IF p_notify IS NOT TRUE THEN
        PERFORM headgate._lock_keys(touched || headgate._keys_of(p_seqs || p_replaced));
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
        END IF;
        IF p_notify IS NOT TRUE AND EXISTS (
            SELECT 1 FROM headgate.live j WHERE j.seq = p_seqs[n] AND j.due <= p_now) THEN
            touched := headgate._arrive(p_seqs[n : n], p_now, touched);
        END IF;
        -- (A rival that is gone by now was unfinished when it was met.)
        states := states || coalesce(headgate._state(coalesce(p_rivals[n], p_ids[n])), 'ready');
    END LOOP;
END $$;
