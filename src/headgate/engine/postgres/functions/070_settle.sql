-- Running attempts end as their worker (or the loss of it) says. Mirrors lifecycle.py; what they held was given back
-- before.
-- p_seqs    jobs that run, held by the caller
-- p_kinds   s succeeded · f failed (time NULL: for good, else back after so long) · z snoozed · c stopped · r released
--           · l lost with its worker
-- p_texts   result of a success, error of the others           p_times   microseconds until it comes back
-- p_keep    how long succeeded, failed and cancelled jobs are kept
-- Returns the jobs that come back at once, in the order of p_seqs; their state is `scheduled`.
-- Writes: attempts, jobs by primary key.
CREATE OR REPLACE FUNCTION headgate._settle(p_seqs bigint[], p_kinds text[], p_texts text[], p_times bigint[],
    p_now bigint,
                                            p_keep bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_back bigint[];
BEGIN
    WITH said AS (
        SELECT r.seq, r.n, r.kind, r.said, j.cancel_requested, j.due, j.tries,
               CASE r.kind WHEN 's' THEN 'succeeded' WHEN 'f' THEN 'failed' WHEN 'z' THEN 'snoozed' WHEN 'c'
                   THEN 'cancelled'
                           WHEN 'r' THEN 'released' ELSE 'lost' END AS outcome,
               CASE WHEN r.kind = 's' THEN 'succeeded'
                    WHEN r.kind = 'c' OR j.cancel_requested THEN 'cancelled'
                    WHEN r.kind = 'f' AND r.pause IS NULL THEN 'failed'
                    WHEN r.kind = 'l' AND j.tries >= (j.retry::json ->> 0)::bigint THEN 'failed'
                    ELSE 'scheduled' END AS state,
               CASE r.kind WHEN 'r' THEN least(j.due, p_now)
                           WHEN 'l' THEN p_now + headgate._wait(j.retry::json, j.tries)
                           ELSE p_now + r.pause END AS back
        FROM unnest(p_seqs, p_kinds, p_texts, p_times) WITH ORDINALITY AS r (seq, kind, said, pause, n)
        JOIN headgate.jobs j ON j.seq = r.seq
    ), kept AS (
        INSERT INTO headgate.attempts (job, number, outcome, started_at, ended_at, worker, error)
        SELECT j.seq, j.attempt, s.outcome, j.started_at, p_now, coalesce(j.worker, ''),
               CASE WHEN s.kind IN ('f', 'l') THEN s.said END
        FROM said s JOIN headgate.jobs j ON j.seq = s.seq WHERE s.state = 'scheduled'
    ), moved AS (
        UPDATE headgate.jobs j
        SET state = s.state,
            due = CASE WHEN s.state = 'scheduled' THEN s.back ELSE j.due END,
            outcome = CASE WHEN s.state = 'scheduled' THEN NULL ELSE s.outcome END,
            worker = CASE WHEN s.state = 'scheduled' THEN NULL ELSE j.worker END,
            started_at = CASE WHEN s.state = 'scheduled' THEN NULL ELSE j.started_at END,
            ended_at = CASE WHEN s.state = 'scheduled' THEN NULL ELSE p_now END,
            error = CASE WHEN s.kind IN ('f', 'c', 'l') THEN s.said END,
            result = CASE WHEN s.kind = 's' THEN s.said END,
            tries = j.tries - CASE WHEN s.state = 'scheduled' AND s.kind IN ('z', 'r') THEN 1 ELSE 0 END,
            refusals = CASE WHEN s.state = 'scheduled' THEN NULL ELSE j.refusals END,
            expires_at = CASE WHEN s.state <> 'scheduled' THEN p_now + coalesce(j.retention,
                CASE s.state WHEN 'succeeded' THEN p_keep[1] WHEN 'failed' THEN p_keep[2] ELSE p_keep[3] END) END
        FROM said s WHERE j.seq = s.seq
        RETURNING j.seq, s.n, j.state, j.due
    )
    SELECT array_agg(m.seq ORDER BY m.n) INTO v_back FROM moved m WHERE m.state = 'scheduled' AND m.due <= p_now;
    RETURN coalesce(v_back, '{}');
END $$;

-- The back-off of a retry policy (retry.py) after so many counted attempts.
CREATE OR REPLACE FUNCTION headgate._wait(p_retry json, p_tries integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (p_retry ->> 1)::bigint = 0 THEN 0
                ELSE trunc(least((p_retry ->> 3)::float8,
                                 (p_retry ->> 1)::float8 * (p_retry ->> 2)::float8 ^ least(p_tries - 1, 64)))::bigint
                                     END
$$;

-- What a worker reports, as far as the fence lets it through; progress is written down.
-- `refused` are positions in p_jobs; `keys` what the others hold.   Locks: jobs in order (3).   Reads: jobs_id,
-- holders_job. (The || '' keep the planner from jobs_running: ids find few rows, a worker many.)
CREATE OR REPLACE FUNCTION headgate._report(p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[],
    p_texts text[],
    p_times bigint[], OUT seqs bigint[], OUT kinds text[], OUT texts text[], OUT times bigint[], OUT keys text[],
        OUT refused integer[])
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM headgate.jobs j
    WHERE j.id = ANY (p_jobs) AND j.state || '' = 'running' AND j.worker || '' = p_worker ORDER BY j.id FOR UPDATE;
    SELECT array_agg(x.seq) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.kind) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.said) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.pause) FILTER (WHERE x.seq IS NOT NULL AND x.kind <> 'p'),
           array_agg(x.n::integer) FILTER (WHERE x.seq IS NULL)
    INTO seqs, kinds, texts, times, refused
    FROM (
        SELECT j.seq, r.n, r.kind, r.said, r.pause
        FROM unnest(p_jobs, p_attempts, p_kinds, p_texts, p_times) WITH ORDINALITY AS r (id, attempt, kind, said, pause,
            n)
        LEFT JOIN headgate.jobs j ON j.id = r.id AND j.attempt = r.attempt
            AND j.worker || '' = p_worker AND j.state || '' = 'running'
        ORDER BY r.n
    ) AS x;
    IF 'p' = ANY (p_kinds) THEN
        UPDATE headgate.jobs j SET progress = r.said
        FROM unnest(p_jobs, p_attempts, p_kinds, p_texts) AS r (id, attempt, kind, said)
        WHERE r.kind = 'p' AND j.id = r.id AND j.attempt = r.attempt AND j.worker || '' = p_worker
            AND j.state || '' = 'running';
    END IF;
    keys := ARRAY(SELECT h.key FROM headgate.holders h WHERE h.job = ANY (seqs));
END $$;

-- The same for successes alone, which are written down in the same statement. What they hold is still to be given back.
-- Locks: jobs in order (3).   Reads: jobs_id, holders_job.
CREATE OR REPLACE FUNCTION headgate._succeed(p_worker text, p_jobs text[], p_attempts integer[], p_texts text[],
    p_now bigint,
    p_keep bigint[], OUT seqs bigint[], OUT keys text[], OUT refused integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_places bigint[];
BEGIN
    WITH done AS (
        UPDATE headgate.jobs j
        SET state = 'succeeded', outcome = 'succeeded', ended_at = p_now, result = r.said,
            expires_at = p_now + coalesce(j.retention, p_keep[1])
        FROM (
            SELECT u.id, u.attempt, u.said, u.n
            FROM unnest(p_jobs, p_attempts, p_texts) WITH ORDINALITY AS u (id, attempt, said, n)
                ORDER BY u.id COLLATE "C"
        ) AS r
        WHERE j.id = r.id AND j.attempt = r.attempt AND j.worker || '' = p_worker AND j.state || '' = 'running'
        RETURNING j.seq, r.n
    )
    SELECT array_agg(d.seq), array_agg(d.n) INTO seqs, v_places FROM done d;
    keys := ARRAY(SELECT h.key FROM headgate.holders h WHERE h.job = ANY (seqs));
    IF v_places IS NULL OR cardinality(v_places) < cardinality(p_jobs) THEN
        refused := ARRAY(SELECT n FROM generate_series(1, cardinality(p_jobs)) AS n
            WHERE n <> ALL (coalesce(v_places, '{}')));
    END IF;
END $$;
