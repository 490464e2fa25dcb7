-- Running attempts end as their worker (or the loss of it) says. Mirrors lifecycle.py; what they held was given back
-- before.
-- p_seqs    jobs that run, held by the caller
-- p_kinds   s succeeded · f failed (time NULL: for good, else back after so long) · z snoozed · c stopped · r released
--           · l lost with its worker · x lost with its worker, and fails by it
-- p_texts   result of a success, error of the others           p_times   microseconds until it comes back
-- p_keep    how long succeeded, failed and cancelled jobs are kept
-- Returns the jobs that come back at once, in the order of p_seqs; their state is `scheduled`.
-- Writes: attempts, live, ended.   Reads: live and jobs by primary key.
CREATE OR REPLACE FUNCTION headgate._settle(p_seqs bigint[], p_kinds text[], p_texts text[], p_times bigint[],
                                            p_now bigint, p_keep bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_back bigint[];
BEGIN
    WITH said AS MATERIALIZED (
        SELECT r.seq, r.n, r.kind, r.said, l.due, l.tries, l.attempt, l.worker, l.started_at, l.cancel_requested,
               l.progress, j.retention,
               CASE r.kind WHEN 's' THEN 'succeeded' WHEN 'f' THEN 'failed' WHEN 'z' THEN 'snoozed'
                           WHEN 'c' THEN 'cancelled' WHEN 'r' THEN 'released' ELSE 'lost' END AS outcome,
               CASE WHEN r.kind = 's' THEN 'succeeded'
                    WHEN r.kind = 'c' OR l.cancel_requested THEN 'cancelled'
                    WHEN r.kind = 'f' AND r.pause IS NULL OR r.kind = 'x' THEN 'failed'
                    ELSE 'scheduled' END AS state,
               CASE WHEN r.kind IN ('r', 'l') THEN least(l.due, p_now) ELSE p_now + r.pause END AS back
        FROM unnest(p_seqs, p_kinds, p_texts, p_times) WITH ORDINALITY AS r (seq, kind, said, pause, n)
        JOIN headgate.live l ON l.seq = r.seq JOIN headgate.jobs j ON j.seq = r.seq
    ), kept AS (
        INSERT INTO headgate.attempts (job, number, outcome, started_at, ended_at, worker, error)
        SELECT s.seq, s.attempt, s.outcome, s.started_at, p_now, coalesce(s.worker, ''),
               CASE WHEN s.kind IN ('f', 'l') THEN s.said END
        FROM said s WHERE s.state = 'scheduled'
    ), gone AS (
        DELETE FROM headgate.live l USING said s WHERE l.seq = s.seq AND s.state <> 'scheduled'
    ), finished AS (
        INSERT INTO headgate.ended (seq, state, due, attempt, tries, worker, started_at, ended_at, outcome,
                                    cancel_requested, error, result, progress, expires_at)
        SELECT s.seq, s.state, s.due, s.attempt, s.tries, s.worker, s.started_at, p_now, s.outcome, s.cancel_requested,
               CASE WHEN s.kind IN ('f', 'c', 'l', 'x') THEN s.said END, CASE WHEN s.kind = 's' THEN s.said END, s.progress,
               p_now + coalesce(s.retention, CASE s.state WHEN 'succeeded' THEN p_keep[1] WHEN 'failed' THEN p_keep[2]
                                                          ELSE p_keep[3] END)
        FROM said s WHERE s.state <> 'scheduled'
    ), moved AS (
        UPDATE headgate.live l
        SET state = 'scheduled', due = s.back, worker = NULL, started_at = NULL, refusals = NULL,
            error = CASE WHEN s.kind IN ('f', 'l') THEN s.said END,
            tries = l.tries - CASE WHEN s.kind IN ('z', 'r', 'l') THEN 1 ELSE 0 END,
            -- An attempt that came to an end of its own clears its job.
            suspicion = CASE WHEN s.kind IN ('r', 'l') THEN l.suspicion ELSE 0 END,
            lost = CASE WHEN s.kind IN ('r', 'l') THEN l.lost ELSE 0 END,
            lost_after = CASE WHEN s.kind IN ('r', 'l') THEN l.lost_after ELSE 0 END
        FROM said s WHERE l.seq = s.seq AND s.state = 'scheduled'
        RETURNING l.seq, s.n, l.due
    )
    SELECT array_agg(m.seq ORDER BY m.n) INTO v_back FROM moved m WHERE m.due <= p_now;
    RETURN coalesce(v_back, '{}');
END $$;

-- How suspect a running job is at a time (blame.py: level): what has run for clearly longer than before is cleared.
CREATE OR REPLACE FUNCTION headgate._level(p_suspicion integer, p_lost_after bigint, p_started_at bigint, p_at bigint)
    RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_at - p_started_at > p_lost_after + greatest(1000000, p_lost_after / 4) THEN 0
                ELSE p_suspicion END
$$;

-- The attempts of a lost worker end: all of them together, since blame compares them (blame.py). The worker died at some
-- time between p_seen, when it last renewed its lease, and p_died.
-- `failed` are the jobs that fail by it, with their tasks and errors; `touched` keys, those of p_touched included.
-- The caller holds the worker, its jobs and their keys.   Reads: live_running, jobs by primary key.
CREATE OR REPLACE FUNCTION headgate._lose(p_worker text, p_seen bigint, p_died bigint, p_now bigint, p_keep bigint[],
    p_touched text[],
    OUT touched text[], OUT attempts integer, OUT failed text[], OUT tasks text[], OUT errors text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_grave  CONSTANT integer := 3;
    c_guilty CONSTANT integer := 5;
    v_seqs  bigint[];
    v_kinds text[];
    v_texts text[];
BEGIN
    WITH ran AS (
        SELECT l.seq, j.id, l.task, l.lost, l.lost_after, l.cancel_requested, headgate._losses(j.retry) AS losses,
               p_died - coalesce(l.started_at, p_died) AS ran,
               headgate._level(l.suspicion, l.lost_after, l.started_at, p_seen) AS level,
               headgate._level(l.suspicion, l.lost_after, l.started_at, p_died) > 0 AS suspect
        FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq WHERE l.state = 'running' AND l.worker = p_worker
    ), company AS (
        SELECT r.*, r.level > 0
                    AND count(*) FILTER (WHERE r.suspect) OVER () = r.suspect::integer AS alone FROM ran r
    ), blamed AS (
        SELECT c.*, CASE WHEN c.level < c_grave OR c.alone THEN c.level + 1 ELSE c_grave END AS suspicion,
               CASE WHEN c.level > 0 THEN c.lost + 1 ELSE 1 END AS losts,
               greatest(CASE WHEN c.level > 0 THEN c.lost_after ELSE 0 END, c.ran) AS longest
        FROM company c
    ), guilt AS (
        SELECT b.*, b.alone AND b.losts >= b.losses AND b.suspicion >= least(c_guilty, b.losses) AS guilty FROM blamed b
    ), judged AS MATERIALIZED (
        SELECT g.*, NOT g.cancel_requested AND coalesce(g.losses = 0 OR g.guilty, true) AS fails,
               CASE WHEN g.cancel_requested THEN 'the worker was lost while it ran this job'
                    WHEN g.losses IS NULL THEN 'lost with its worker, and its stored retry policy cannot be read'
                    WHEN g.losses = 0 THEN 'lost with its worker, and its policy allows no loss'
                    WHEN g.guilty THEN format('lost %s times with its worker, the last time as the only suspect: it '
                        'probably kills its process', g.losts)
                    ELSE 'the worker was lost while it ran this job' END AS said
        FROM guilt g
    ), written AS (
        UPDATE headgate.live l SET suspicion = j.suspicion, lost = j.losts, lost_after = j.longest
        FROM judged j WHERE l.seq = j.seq
    )
    SELECT coalesce(array_agg(j.seq ORDER BY j.seq), '{}'),
           array_agg(CASE WHEN j.fails THEN 'x' ELSE 'l' END ORDER BY j.seq), array_agg(j.said ORDER BY j.seq),
           coalesce(array_agg(j.id ORDER BY j.seq) FILTER (WHERE j.fails), '{}'),
           coalesce(array_agg(j.task ORDER BY j.seq) FILTER (WHERE j.fails), '{}'),
           coalesce(array_agg(j.said ORDER BY j.seq) FILTER (WHERE j.fails), '{}')
    INTO v_seqs, v_kinds, v_texts, failed, tasks, errors FROM judged j;
    attempts := cardinality(v_seqs);
    touched := headgate._end_each(v_seqs, v_kinds, v_texts, array_fill(NULL::bigint, ARRAY[attempts]), p_now, p_keep,
                                  p_touched);
END $$;

-- How often a job may be lost (retry.py); NULL where its policy cannot be read.
CREATE OR REPLACE FUNCTION headgate._losses(p_retry text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN json_typeof(p_retry::json) = 'array' THEN coalesce((p_retry::json ->> 5)::bigint, 5) END;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- What a worker reports, as far as the fence lets it through; progress is written down.
-- `refused` are positions in p_jobs; `keys` what the others hold.
-- Locks: live in order (3).   Reads: jobs_id, live by primary key, holders_job.
CREATE OR REPLACE FUNCTION headgate._report(p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[],
    p_texts text[], p_times bigint[],
    OUT seqs bigint[], OUT kinds text[], OUT texts text[], OUT times bigint[], OUT keys text[], OUT refused integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_held bigint[] := ARRAY(
        SELECT l.seq FROM headgate.live l
        WHERE l.seq = ANY (ARRAY(SELECT j.seq FROM headgate.jobs j WHERE j.id = ANY (p_jobs)))
            AND l.worker || '' = p_worker AND l.state || '' = 'running'
        ORDER BY l.seq FOR UPDATE);
BEGIN
    SELECT array_agg(x.seq) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.kind) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.said) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.pause) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.n::integer) FILTER (WHERE x.seq IS NULL)
    INTO seqs, kinds, texts, times, refused
    FROM (
        SELECT l.seq, r.n, r.kind, r.said, r.pause
        FROM unnest(p_jobs, p_attempts, p_kinds, p_texts, p_times) WITH ORDINALITY
            AS r (id, attempt, kind, said, pause, n)
        LEFT JOIN headgate.jobs j ON j.id = r.id
        LEFT JOIN headgate.live l ON l.seq = j.seq AND l.seq = ANY (v_held) AND l.attempt = r.attempt
        ORDER BY r.n
    ) AS x;
    IF 'p' = ANY (p_kinds) THEN
        UPDATE headgate.live l SET progress = r.said
        FROM unnest(p_jobs, p_attempts, p_kinds, p_texts) AS r (id, attempt, kind, said)
        JOIN headgate.jobs j ON j.id = r.id
        WHERE r.kind = 'p' AND l.seq = j.seq AND l.seq = ANY (v_held) AND l.attempt = r.attempt;
    END IF;
    keys := ARRAY(SELECT h.key FROM headgate.holders h WHERE h.job = ANY (seqs));
END $$;

-- An unfinished job ends as cancelled.   The caller holds it; what it held or was promised was given back before.
CREATE OR REPLACE FUNCTION headgate._cancel(p_seq bigint, p_now bigint, p_keep bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH gone AS (
        DELETE FROM headgate.live l WHERE l.seq = p_seq RETURNING l.*
    )
    INSERT INTO headgate.ended (seq, state, due, attempt, tries, worker, started_at, ended_at, cancel_requested, error,
                                progress, expires_at)
    SELECT g.seq, 'cancelled', g.due, g.attempt, g.tries, g.worker, g.started_at, p_now, g.cancel_requested, g.error,
           g.progress, p_now + coalesce(j.retention, p_keep[3])
    FROM gone g JOIN headgate.jobs j ON j.seq = g.seq;
END $$;

-- A job whose row in `live` is gone (or never was) is scheduled.   The caller holds its row in `jobs`.
CREATE OR REPLACE FUNCTION headgate._schedule(p_seq bigint, p_due bigint, p_attempt integer, p_tries integer,
                                              p_error text, p_progress text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, unique_key, attempt,
                               tries, error, progress)
    SELECT j.seq, j.task, j.queue, j.tenant, j.priority, p_due, 'scheduled', j.use_keys, j.use_units, j.unique_key,
           p_attempt, p_tries, p_error, p_progress
    FROM headgate.jobs j WHERE j.seq = p_seq;
END $$;
