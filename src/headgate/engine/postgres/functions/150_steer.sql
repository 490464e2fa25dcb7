-- Cancel, restart, expedite or delete jobs.   p_verb · p_ids in any order, also repeated
-- Returns, for each id, whether it was done and the state after it (or the one that refused it, NULL if unknown).
-- Locks: unique keys of jobs to restart (0), rules (1), jobs in the order of their ids (3), their keys (4), waiters
-- (5).   Reads: jobs_id, jobs_unique.
CREATE OR REPLACE FUNCTION headgate.steer(p_verb text, p_ids text[], p_now bigint, p_ttl bigint, p_keep bigint[],
    p_by text,
                                          OUT done boolean[], OUT states text[], OUT again boolean, OUT wake boolean,
                                              OUT ended boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now     bigint := headgate._now(p_now);
    v_seqs    bigint[];
    v_keys    text[];
    v_touched text[] := '{}';
    v_id      text;
    v_ok      boolean;
    j         record;
BEGIN
    done := '{}';
    states := '{}';
    wake := false;
    ended := false;
    IF p_verb = 'restart' THEN
        PERFORM headgate._lock_uniques(array_agg(x.tenant), array_agg(x.unique_key))
        FROM headgate.jobs x WHERE x.id = ANY (p_ids) AND x.unique_key IS NOT NULL;
    END IF;
    PERFORM headgate._hold_rules();
    SELECT array_agg(l.seq) INTO v_seqs FROM (
        SELECT x.seq FROM headgate.jobs x WHERE x.id = ANY (p_ids) ORDER BY x.id FOR UPDATE) AS l;
    IF p_verb IN ('restart', 'expedite') THEN
        v_keys := headgate._keys_of(v_seqs);
    ELSIF p_verb = 'cancel' THEN
        v_keys := ARRAY(
            SELECT h.key FROM headgate.holders h JOIN headgate.jobs x ON x.seq = h.job WHERE x.seq = ANY (v_seqs)
                AND x.state <> 'running'
            UNION SELECT x.offered_by FROM headgate.jobs x WHERE x.seq = ANY (v_seqs) AND x.offered_by IS NOT NULL
            UNION SELECT x.waiting_on FROM headgate.jobs x WHERE x.seq = ANY (v_seqs) AND x.waiting_on IS NOT NULL);
    END IF;
    IF cardinality(v_keys) > 0 THEN
        PERFORM headgate._lock_keys(v_keys);
    END IF;

    FOREACH v_id IN ARRAY p_ids LOOP
        -- Only what is held: a job that somebody else made since is not known here.
        SELECT x.* INTO j FROM headgate.jobs x WHERE x.id = v_id AND x.seq = ANY (v_seqs);
        v_ok := coalesce(CASE p_verb
            WHEN 'cancel' THEN j.state IN ('scheduled', 'ready', 'waiting', 'running')
            WHEN 'restart' THEN j.state IN ('failed', 'cancelled')
            WHEN 'expedite' THEN j.state = 'scheduled'
            ELSE j.state IN ('succeeded', 'failed', 'cancelled') END, false);
        IF v_ok AND p_verb = 'cancel' AND j.state = 'running' THEN
            UPDATE headgate.jobs x SET cancel_requested = true WHERE x.seq = j.seq;
            wake := true;
        ELSIF v_ok AND p_verb = 'cancel' THEN
            v_touched := v_touched || headgate._give_back(ARRAY[j.seq]);
            UPDATE headgate.jobs x
            SET state = 'cancelled', ended_at = v_now, expires_at = v_now + coalesce(x.retention, p_keep[3]),
                outcome = NULL,
                waiting_on = NULL, offered_by = NULL, units = 0, set_aside = false, fresh = false
            WHERE x.seq = j.seq;
            ended := true;
        ELSIF v_ok AND p_verb = 'restart' THEN
            v_ok := headgate._restart(j.seq, v_now);
            IF v_ok THEN
                v_touched := headgate._arrive(ARRAY[j.seq], v_now, v_touched);
                wake := true;
            END IF;
        ELSIF v_ok AND p_verb = 'expedite' THEN
            UPDATE headgate.jobs x SET due = v_now WHERE x.seq = j.seq;
            v_touched := headgate._arrive(ARRAY[j.seq], v_now, v_touched);
            wake := true;
        ELSIF v_ok THEN
            DELETE FROM headgate.attempts a WHERE a.job = j.seq;
            DELETE FROM headgate.jobs x WHERE x.seq = j.seq;
        END IF;
        done := done || v_ok;
        states := array_append(states, CASE WHEN p_verb = 'delete' OR NOT v_ok THEN j.state
                                            ELSE (SELECT x.state FROM headgate.jobs x WHERE x.seq = j.seq) END);
    END LOOP;
    wake := headgate._offer(v_touched, v_now, p_ttl) > 0 OR wake;
    again := NOT headgate.wake(wake, ended, p_by);
END $$;

-- An ended job is scheduled anew, due now; false if an unfinished one has its unique key, which the caller holds.
CREATE OR REPLACE FUNCTION headgate._restart(p_seq bigint, p_now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM headgate.jobs r JOIN headgate.jobs j ON r.tenant = j.tenant AND r.unique_key = j.unique_key
               WHERE j.seq = p_seq AND r.state IN ('scheduled', 'ready', 'waiting', 'running')) THEN
        RETURN false;
    END IF;
    INSERT INTO headgate.attempts (job, number, outcome, started_at, ended_at, worker, error)
    SELECT j.seq, j.attempt, j.outcome, j.started_at, j.ended_at, coalesce(j.worker, ''), j.error FROM headgate.jobs j
    WHERE j.seq = p_seq AND j.outcome IS NOT NULL AND j.started_at IS NOT NULL AND j.ended_at IS NOT NULL
    ON CONFLICT DO NOTHING;
    UPDATE headgate.jobs j
    SET state = 'scheduled', due = p_now, tries = 0, worker = NULL, started_at = NULL, ended_at = NULL, outcome = NULL,
        error = NULL,
        result = NULL, expires_at = NULL, cancel_requested = false, refusals = NULL
    WHERE j.seq = p_seq;
    RETURN true;
END $$;
