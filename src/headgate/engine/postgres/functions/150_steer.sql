-- Cancel, restart, expedite or delete jobs.   p_verb · p_ids in any order, also repeated
-- p_args, p_keys, p_units, p_numbers, p_share   the arguments and needs with which jobs are restarted, the numbers that
-- they bring, and the share of those that have one; p_args NULL: those that they have
-- `problem` says why nothing was done, `subject` and `detail` about which limit (see _misused). Returns, for each id, whether it was done and the state after it (or the one that refused it, NULL if unknown).
-- Locks: unique keys of jobs to restart (0), rules (1), jobs in the order of their ids and their rows in `live` (3),
-- their keys (4), waiters (5).   Reads: jobs_id, live_unique.
CREATE OR REPLACE FUNCTION headgate.steer(p_verb text, p_ids text[], p_args text, p_keys text[], p_units bigint[],
                                          p_numbers bigint[], p_share text, p_now bigint, p_ttl bigint, p_keep bigint[],
                                          p_by text, OUT done boolean[], OUT states text[], OUT again boolean, OUT wake boolean,
                                          OUT ended boolean, OUT problem text, OUT subject text, OUT detail text)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_now     bigint := headgate._now(p_now);
    v_known   bigint[];
    v_seqs    bigint[];
    v_keys    text[];
    v_bad     bigint[];
    v_touched text[] := '{}';
    v_id      text;
    v_ok      boolean;
    j         record;
BEGIN
    done := '{}';
    states := '{}';
    wake := false;
    ended := false;
    again := false;
    IF cardinality(p_keys) > 0 THEN
        SELECT m.problem, m.subject, m.detail INTO problem, subject, detail FROM headgate._misused(
            ARRAY(SELECT headgate._name(k) FROM unnest(p_keys) AS k), ARRAY(SELECT k LIKE 'r%' FROM unnest(p_keys) AS k),
            NULL) AS m;
        IF problem IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    IF p_verb = 'restart' THEN
        v_known := ARRAY(SELECT x.seq FROM headgate.jobs x WHERE x.id = ANY (p_ids));
        PERFORM headgate._lock_uniques(array_agg(x.tenant), array_agg(x.unique_key))
        FROM headgate.jobs x WHERE x.seq = ANY (v_known) AND x.unique_key IS NOT NULL;
    END IF;
    v_seqs := headgate._hold_jobs(p_ids);
    IF p_verb = 'restart' THEN  -- not a job that took an id since then: its unique key is not held here
        v_seqs := ARRAY(SELECT s FROM unnest(v_seqs) AS s WHERE s = ANY (v_known));
        v_keys := headgate._needs_of(v_seqs) || p_keys;
    ELSIF p_verb = 'expedite' THEN
        v_keys := headgate._keys_of(v_seqs);
    ELSIF p_verb = 'cancel' THEN
        v_keys := ARRAY(
            SELECT h.key FROM headgate.holders h JOIN headgate.live x ON x.seq = h.job WHERE x.seq = ANY (v_seqs)
                AND x.state <> 'running'
            UNION SELECT x.offered_by FROM headgate.live x WHERE x.seq = ANY (v_seqs) AND x.offered_by IS NOT NULL
            UNION SELECT x.waiting_on FROM headgate.live x WHERE x.seq = ANY (v_seqs) AND x.waiting_on IS NOT NULL);
    END IF;
    -- A job whose state cannot be read has failed, whatever is asked for.
    v_bad := ARRAY(SELECT x.seq FROM headgate.live x WHERE x.seq = ANY (v_seqs) AND headgate._garbled(x.state));
    IF cardinality(v_bad) > 0 THEN
        v_keys := coalesce(v_keys, '{}') || headgate._keys_of_unreadable(v_bad);
    END IF;
    IF cardinality(v_keys) > 0 THEN
        PERFORM headgate._lock_keys(v_keys);
    END IF;
    IF cardinality(v_bad) > 0 THEN
        v_touched := headgate._end_unreadable(v_bad, v_now, p_keep);
        ended := true;
    END IF;

    FOREACH v_id IN ARRAY p_ids LOOP
        -- Only what is held: a job that another call made since is not known here.
        SELECT x.seq, coalesce(l.state, CASE WHEN e.state IN ('succeeded', 'cancelled') THEN e.state
                                             WHEN e.seq IS NOT NULL THEN 'failed' END) AS state INTO j
        FROM headgate.jobs x LEFT JOIN headgate.live l ON l.seq = x.seq LEFT JOIN headgate.ended e ON e.seq = x.seq
        WHERE x.id = v_id AND x.seq = ANY (v_seqs);
        v_ok := coalesce(CASE p_verb
            WHEN 'cancel' THEN j.state IN ('scheduled', 'ready', 'waiting', 'running')
            WHEN 'restart' THEN j.state IN ('failed', 'cancelled')
            WHEN 'expedite' THEN j.state = 'scheduled'
            ELSE j.state IN ('succeeded', 'failed', 'cancelled') END, false);
        IF v_ok AND p_verb = 'cancel' AND j.state = 'running' THEN
            UPDATE headgate.live x SET cancel_requested = true WHERE x.seq = j.seq;
            wake := true;
        ELSIF v_ok AND p_verb = 'cancel' THEN
            v_touched := v_touched || headgate._cancel_pending(j.seq, v_now, p_keep);
            ended := true;
        ELSIF v_ok AND p_verb = 'restart' THEN
            v_ok := headgate._restart(j.seq, v_now, p_args, p_keys, p_units, p_numbers, p_share);
            IF v_ok THEN
                IF p_args IS NOT NULL THEN
                    PERFORM headgate._bring(p_keys, p_numbers, v_now, false);
                    v_touched := v_touched || p_keys;
                END IF;
                v_touched := headgate._arrive(ARRAY[j.seq], v_now, p_keep, v_touched, false);
                ended := true;
                wake := true;
            END IF;
        ELSIF v_ok AND p_verb = 'expedite' THEN
            UPDATE headgate.live x SET due = v_now WHERE x.seq = j.seq;
            v_touched := headgate._arrive(ARRAY[j.seq], v_now, p_keep, v_touched, false);
            wake := true;
            ended := true;
        ELSIF v_ok THEN
            DELETE FROM headgate.attempts a WHERE a.job = j.seq;
            DELETE FROM headgate.ended x WHERE x.seq = j.seq;
            DELETE FROM headgate.jobs x WHERE x.seq = j.seq;
        END IF;
        done := done || v_ok;
        states := array_append(states, CASE WHEN p_verb = 'delete' OR NOT v_ok THEN j.state
                                            ELSE headgate._state(v_id) END);
    END LOOP;
    wake := headgate._offer(v_touched, v_now, p_ttl) > 0 OR wake;
    again := NOT headgate.wake(wake, ended, p_by);
END $$;

-- Hold the rules (1) and jobs by their ids (3); returns the jobs.
-- A caller's transaction may hold a job for minutes that it replaces. A step that waited for such a job while it holds the
-- rules would hold up every change of a number, and all other steps behind that. So the rules are let go before a long
-- wait.
CREATE OR REPLACE FUNCTION headgate._hold_jobs(p_ids text[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_timeout text := current_setting('lock_timeout');
    v_ruled   boolean;
    v_seqs    bigint[];
    v_seq     bigint;
BEGIN
    LOOP
        v_ruled := false;
        BEGIN
            PERFORM headgate._hold_rules();
            v_ruled := true;
            PERFORM set_config('lock_timeout', '100', true);
            v_seqs := ARRAY(SELECT x.seq FROM headgate.jobs x WHERE x.id = ANY (p_ids) ORDER BY x.id FOR UPDATE);
            PERFORM 1 FROM headgate.live x WHERE x.seq = ANY (v_seqs) ORDER BY x.seq FOR UPDATE;
            PERFORM set_config('lock_timeout', v_timeout, true);
            RETURN v_seqs;
        EXCEPTION WHEN lock_not_available THEN
            IF NOT v_ruled THEN  -- the server's own setting has run out
                RAISE;
            END IF;
        END;  -- all is let go, the rules, too
        FOREACH v_seq IN ARRAY coalesce(v_seqs, '{}') LOOP
            BEGIN
                PERFORM 1 FROM headgate.live x WHERE x.seq = v_seq FOR UPDATE;
                RAISE EXCEPTION SQLSTATE 'HG004';
            EXCEPTION WHEN SQLSTATE 'HG004' THEN
                NULL;  -- it could be had a moment ago
            END;
        END LOOP;
    END LOOP;
END $$;

-- An ended job is scheduled anew, due now; false if an unfinished one has its unique key, which the caller holds.
-- p_args, p_keys, p_units, p_numbers, p_share   as in steer; the caller holds the keys
CREATE OR REPLACE FUNCTION headgate._restart(p_seq bigint, p_now bigint, p_args text, p_keys text[], p_units bigint[],
                                             p_numbers bigint[], p_share text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    e record;
BEGIN
    IF EXISTS (SELECT 1 FROM headgate.live r JOIN headgate.jobs j ON r.tenant = j.tenant AND r.unique_key = j.unique_key
                   AND NOT r.key_free WHERE j.seq = p_seq)
        OR EXISTS (SELECT 1 FROM headgate.jobs j CROSS JOIN LATERAL headgate._keeper(j.tenant, j.unique_key, p_now) AS k
                   WHERE j.seq = p_seq AND k.job <> p_seq) THEN
        RETURN false;
    END IF;
    IF p_args IS NOT NULL THEN
        UPDATE headgate.jobs x
        SET args = p_args, use_keys = nullif(p_keys, '{}'), use_units = CASE WHEN p_keys <> '{}' THEN p_units END,
            use_numbers = CASE WHEN cardinality(array_remove(p_numbers, NULL)) > 0 THEN p_numbers END,
            share = CASE WHEN x.share IS NOT NULL THEN coalesce(p_share, x.share) END
        WHERE x.seq = p_seq;
    END IF;
    DELETE FROM headgate.ended x WHERE x.seq = p_seq RETURNING x.* INTO e;
    INSERT INTO headgate.attempts (job, number, outcome, started_at, ended_at, worker, error)
    SELECT p_seq, e.attempt, e.outcome, e.started_at, e.ended_at, coalesce(e.worker, ''), e.error
    WHERE e.outcome IS NOT NULL AND e.started_at IS NOT NULL
    ON CONFLICT DO NOTHING;
    PERFORM headgate._schedule(p_seq, p_now, e.attempt, 0, NULL, e.progress, NULL);
    RETURN true;
END $$;
