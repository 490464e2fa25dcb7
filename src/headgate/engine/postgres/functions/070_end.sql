-- Every attempt ends here, however it ends, and so does a job that is cancelled before it starts (rules 1 and 10): the
-- fence, the slots given back, the job in its new state. Mirrors lifecycle.py.
-- p_worker     the fence: only attempts p_attempts of p_jobs that run under this worker end; NULL: p_seqs end, which
--              the caller holds
-- p_kinds      s succeeded · f failed (time NULL: for good, else back after so long) · z snoozed · c stopped
--              · r released · t throttled by a service · l lost with its worker · x lost with its worker, and fails by it · k cancelled before it
--              started · u unreadable, whatever its state was · p progress, w what was spent, which end nothing
-- p_texts      result of a success, error of the others          p_times   microseconds until it comes back
-- p_ended_at   when they ended, if not now                       p_keep    how long ended jobs are kept, by state
-- `touched` are the keys to offer; `back` those that come back at once, in order, for the caller to let them arrive, and
-- `returned` likewise those that come back uncounted, as they were; `refused` are positions in p_jobs.
-- Locks: the jobs, in order (3).   Writes: holders, attempts, live, ended.   Reads: live and jobs by primary key.
CREATE OR REPLACE FUNCTION headgate._end(p_worker text, p_jobs text[], p_attempts integer[], p_seqs bigint[],
                                         p_kinds text[], p_texts text[], p_times bigint[], p_now bigint,
                                         p_keep bigint[],
                                         OUT touched text[], OUT back bigint[], OUT returned bigint[],
                                         OUT refused integer[],
                                         p_ended_at bigint DEFAULT NULL)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_at     bigint := coalesce(p_ended_at, p_now);
    v_all    bigint[];
    v_seqs   bigint[];
    v_places integer[];
    v_keeping bigint[];        -- those that keep their unique key for a time
    v_timed  bigint[];         -- those whose shares are charged for the time that their attempts took
    v_tooks  bigint[];
BEGIN
    back := '{}';
    returned := '{}';
    IF p_worker IS NOT NULL AND 's' = ALL (p_kinds) THEN
        -- Successes alone: fenced and written by one statement.
        -- (The || '' keep the planner from live_running: a worker has many rows.)
        WITH done AS (
            DELETE FROM headgate.live l
            USING (
                SELECT j.seq, j.retention, j.by_time, u.attempt, u.said, u.n
                FROM unnest(p_jobs, p_attempts, p_texts) WITH ORDINALITY AS u (id, attempt, said, n)
                JOIN headgate.jobs j ON j.id = u.id ORDER BY j.seq
            ) AS r
            WHERE l.seq = r.seq AND l.attempt = r.attempt AND l.worker || '' = p_worker AND l.state || '' = 'running'
            RETURNING l.seq, l.due, l.attempt, l.tries, l.started_at, l.cancel_requested, l.progress, l.tag,
                      l.unique_until, r.retention, r.by_time, r.said, r.n
        ), finished AS (
            INSERT INTO headgate.ended (seq, state, due, attempt, tries, worker, started_at, ended_at, outcome,
                                        cancel_requested, result, progress, expires_at, tag, unique_until)
            SELECT d.seq, 'succeeded', d.due, d.attempt, d.tries, p_worker, d.started_at, v_at, 'succeeded',
                   d.cancel_requested, d.said, d.progress,
                   greatest(p_now + coalesce(d.retention, p_keep[1]), d.unique_until), nullif(d.tag, 0),
                   CASE WHEN d.unique_until > p_now THEN d.unique_until END
            FROM done d
        )
        SELECT coalesce(array_agg(d.seq), '{}'), coalesce(array_agg(d.n::integer), '{}'),
               array_agg(d.seq) FILTER (WHERE d.unique_until > p_now),
               array_agg(d.seq ORDER BY d.n) FILTER (WHERE d.by_time),
               array_agg(v_at - d.started_at ORDER BY d.n) FILTER (WHERE d.by_time)
        INTO v_seqs, v_places, v_keeping, v_timed, v_tooks
        FROM done d;
        touched := headgate._give_back(v_seqs, true);
    ELSE
        v_all := CASE WHEN p_worker IS NULL THEN p_seqs ELSE headgate._seqs_of(p_jobs) END;
        SELECT coalesce(array_agg(r.seq) FILTER (WHERE r.kind NOT IN ('p', 'w')), '{}'), coalesce(array_agg(r.n), '{}')
        INTO v_seqs, v_places FROM (
            SELECT l.seq, u.n::integer AS n, u.kind
            FROM unnest(v_all, p_attempts, p_kinds) WITH ORDINALITY AS u (seq, attempt, kind, n)
            JOIN headgate.live l ON l.seq = u.seq
            WHERE p_worker IS NULL
               OR l.attempt = u.attempt AND l.worker || '' = p_worker AND l.state || '' = 'running'
            ORDER BY l.seq FOR UPDATE OF l
        ) AS r;
        touched := headgate._give_back(v_seqs, NOT p_kinds && ARRAY['k', 'u']);
        WITH said AS MATERIALIZED (
            SELECT r.seq, r.n, r.kind, r.said, l.due, l.tries, l.attempt, l.worker, l.started_at, l.cancel_requested,
                   l.progress, l.error, l.tag, l.start_by, l.unique_until, j.retention, j.by_time,
                   CASE r.kind WHEN 's' THEN 'succeeded' WHEN 'f' THEN 'failed' WHEN 'z' THEN 'snoozed'
                               WHEN 'c' THEN 'cancelled' WHEN 'r' THEN 'released' WHEN 't' THEN 'throttled'
                               WHEN 'l' THEN 'lost'
                               WHEN 'x' THEN 'lost' END AS outcome,
                   CASE WHEN r.kind = 's' THEN 'succeeded'
                        WHEN r.kind IN ('c', 'k') OR l.cancel_requested AND r.kind <> 'u' THEN 'cancelled'
                        WHEN r.kind = 'f' AND r.pause IS NULL OR r.kind IN ('u', 'x') THEN 'failed'
                        ELSE 'scheduled' END AS state,
                   r.kind IN ('r', 't', 'l') AS as_it_was,
                   CASE WHEN r.kind IN ('r', 't', 'l') THEN least(l.due, p_now) ELSE p_now + r.pause END AS back
            FROM unnest(v_all, p_kinds, p_texts, p_times) WITH ORDINALITY AS r (seq, kind, said, pause, n)
            JOIN headgate.live l ON l.seq = r.seq JOIN headgate.jobs j ON j.seq = r.seq
            WHERE r.n = ANY (v_places) AND r.kind NOT IN ('p', 'w')
        ), kept AS (
            INSERT INTO headgate.attempts (job, number, outcome, started_at, ended_at, worker, error)
            SELECT s.seq, s.attempt, s.outcome, s.started_at, v_at, coalesce(s.worker, ''),
                   CASE WHEN s.kind IN ('f', 'l') THEN s.said END
            FROM said s WHERE s.state = 'scheduled'
        ), gone AS (
            DELETE FROM headgate.live l USING said s WHERE l.seq = s.seq AND s.state <> 'scheduled'
        ), finished AS (
            INSERT INTO headgate.ended (seq, state, due, attempt, tries, worker, started_at, ended_at, outcome,
                                        cancel_requested, error, result, progress, expires_at, tag, start_by,
                                        unique_until)
            SELECT s.seq, s.state, s.due, s.attempt, s.tries, s.worker, s.started_at, v_at, s.outcome,
                   s.cancel_requested,
                   CASE WHEN s.kind IN ('f', 'c', 'l', 'u', 'x') THEN s.said
                        WHEN s.kind = 'k' THEN coalesce(s.said, s.error) END,
                   CASE WHEN s.kind = 's' THEN s.said END, s.progress,
                   greatest(p_now + coalesce(s.retention, headgate._kept(s.state, p_keep)), s.unique_until),
                   nullif(s.tag, 0), s.start_by, CASE WHEN s.unique_until > p_now THEN s.unique_until END
            FROM said s WHERE s.state <> 'scheduled'
        ), moved AS (
            UPDATE headgate.live l
            SET state = 'scheduled', due = s.back, worker = NULL, started_at = NULL, refusals = NULL, spent = NULL,
                error = CASE WHEN s.kind IN ('f', 'l') THEN s.said END,
                tries = l.tries - (s.kind = 'z' OR s.as_it_was)::integer,
                -- An attempt that came to an end of its own clears its job.
                suspicion = CASE WHEN s.as_it_was THEN l.suspicion ELSE 0 END,
                lost = CASE WHEN s.as_it_was THEN l.lost ELSE 0 END,
                lost_after = CASE WHEN s.as_it_was THEN l.lost_after ELSE 0 END
            FROM said s WHERE l.seq = s.seq AND s.state = 'scheduled'
            RETURNING l.seq, s.n, l.due, s.as_it_was
        )
        SELECT coalesce(array_agg(m.seq ORDER BY m.n) FILTER (WHERE m.due <= p_now AND NOT m.as_it_was), '{}'),
               coalesce(array_agg(m.seq ORDER BY m.n) FILTER (WHERE m.due <= p_now AND m.as_it_was), '{}'),
               (SELECT array_agg(s.seq) FROM said s WHERE s.state <> 'scheduled' AND s.unique_until > p_now),
               (SELECT array_agg(s.seq ORDER BY s.n) FROM said s WHERE s.by_time AND s.outcome IS NOT NULL),
               (SELECT array_agg(v_at - s.started_at ORDER BY s.n) FROM said s WHERE s.by_time AND s.outcome IS NOT NULL)
        INTO back, returned, v_keeping, v_timed, v_tooks FROM moved m;
    END IF;
    IF v_keeping IS NOT NULL THEN
        PERFORM headgate._keep_keys(v_keeping);
    END IF;
    IF v_timed IS NOT NULL THEN
        PERFORM headgate._learn_time(v_timed, v_tooks, p_now);
    END IF;
    IF cardinality(v_places) < cardinality(p_jobs) THEN
        refused := ARRAY(SELECT r.n FROM generate_series(1, cardinality(p_jobs)) AS r (n) WHERE r.n <> ALL (v_places));
    END IF;
END $$;

-- Ended jobs keep their unique keys until a time. No key is waited for here: which of several rows counts is decided when
-- it is looked up.   The caller holds the jobs.
CREATE OR REPLACE FUNCTION headgate._keep_keys(p_seqs bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.kept_keys (job, tenant, key, until)
    SELECT j.seq, j.tenant, j.unique_key, e.unique_until FROM headgate.ended e JOIN headgate.jobs j ON j.seq = e.seq
    WHERE e.seq = ANY (p_seqs) AND j.unique_key IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM headgate.live l WHERE l.tenant = j.tenant AND l.unique_key = j.unique_key AND NOT l.key_free)
    ON CONFLICT (job) DO UPDATE SET until = excluded.until;
END $$;

-- How long a job is kept that ends in this state, unless it says so itself.   p_keep   succeeded, failed, cancelled
CREATE OR REPLACE FUNCTION headgate._kept(p_state text, p_keep bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE p_state WHEN 'succeeded' THEN p_keep[1] WHEN 'failed' THEN p_keep[2] ELSE p_keep[3] END
$$;

-- The rows of jobs, as of their ids.   Reads: jobs_id.
CREATE OR REPLACE FUNCTION headgate._seqs_of(p_jobs text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(SELECT j.seq FROM unnest(p_jobs) WITH ORDINALITY AS u (id, n) LEFT JOIN headgate.jobs j ON j.id = u.id
                 ORDER BY u.n);
END $$;

-- Attempts end one after the other, each giving back and coming back before the next: the way of those that may come
-- back at once, and of what workers say about rates.   p_touched   keys that were touched before; `touched` are these and more. Else as _end
-- The caller holds the jobs and all of their keys.
CREATE OR REPLACE FUNCTION headgate._end_each(p_worker text, p_jobs text[], p_attempts integer[], p_seqs bigint[],
                                              p_kinds text[], p_texts text[], p_times bigint[], p_now bigint,
                                              p_keep bigint[], p_touched text[], OUT touched text[],
                                              OUT refused integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    e        record;
    v_kind   text;
    v_closed text[];
BEGIN
    touched := p_touched;
    IF NOT headgate._any_caps() AND NOT p_kinds && '{t,w}'
        AND NOT EXISTS (SELECT 1 FROM headgate.live l WHERE l.seq = ANY (p_seqs) AND l.use_keys IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM headgate.holders h WHERE h.job = ANY (p_seqs)) THEN
        -- Nothing is given back, and nothing is in their way: a thousand at once must not take a thousand times as
        -- long.
        e := headgate._end(p_worker, p_jobs, p_attempts, p_seqs, p_kinds, p_texts, p_times, p_now, p_keep);
        touched := headgate._arrive(e.back, p_now, p_keep, touched, false);
        touched := headgate._arrive(e.returned, p_now, p_keep, touched, true);
        refused := e.refused;
        RETURN;
    END IF;
    FOR i IN 1 .. cardinality(p_seqs) LOOP
        v_kind := p_kinds[i];
        IF v_kind IN ('t', 'w') AND EXISTS (
            SELECT 1 FROM headgate.live l
            WHERE l.seq = p_seqs[i] AND l.attempt = p_attempts[i] AND l.worker = p_worker AND l.state = 'running') THEN
            IF v_kind = 'w' THEN
                touched := touched || headgate._correct(p_seqs[i], p_texts[i], p_times[i], p_now);
            ELSE
                v_closed := headgate._throttle(p_seqs[i], p_texts[i], p_times[i], p_now);
                touched := touched || v_closed;
                v_kind := CASE WHEN v_closed = '{}' THEN 'z' ELSE 't' END;
            END IF;
        END IF;
        e := headgate._end(p_worker, p_jobs[i : i], p_attempts[i : i], p_seqs[i : i], ARRAY[v_kind], p_texts[i : i],
                           p_times[i : i], p_now, p_keep);
        touched := headgate._arrive(e.back, p_now, p_keep, touched || e.touched, false);
        touched := headgate._arrive(e.returned, p_now, p_keep, touched, true);
        IF e.refused IS NOT NULL THEN
            refused := array_append(refused, i);
        END IF;
    END LOOP;
END $$;

-- Attempts end that no worker reports; without p_kinds they are given back, uncounted. Else as _end.   The caller holds the jobs and all
-- of their keys.
CREATE OR REPLACE FUNCTION headgate._take_back(p_seqs bigint[], p_kinds text[], p_texts text[], p_now bigint,
                                               p_keep bigint[], p_touched text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_none bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_seqs)]);
    e      record;
BEGIN
    e := headgate._end_each(
        NULL, NULL, NULL, p_seqs, coalesce(p_kinds, array_fill('r'::text, ARRAY[cardinality(p_seqs)])),
        coalesce(p_texts, v_none::text[]), v_none, p_now, p_keep, p_touched);
    RETURN e.touched;
END $$;

-- How suspect a running job is at a time (blame.py: level): what has run for clearly longer than before is cleared.
CREATE OR REPLACE FUNCTION headgate._level(p_suspicion integer, p_lost_after bigint, p_started_at bigint, p_at bigint)
    RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_at - p_started_at > p_lost_after + greatest(1000000, p_lost_after / 4) THEN 0
                ELSE p_suspicion END
$$;

-- The attempts of a lost worker end: all of them together, since blame compares them (blame.py). The worker died at
-- some time between p_seen, when it last renewed its lease, and p_died.
-- `failed` are the jobs that fail by it, with their tasks and errors; `touched` keys, those of p_touched included.
-- The caller holds the worker, its jobs and their keys.   Reads: live_running, jobs by primary key.
CREATE OR REPLACE FUNCTION headgate._lose(p_worker text, p_seen bigint, p_died bigint, p_now bigint, p_keep bigint[],
    p_touched text[],
    OUT touched text[], OUT attempts integer, OUT failed text[], OUT tasks text[], OUT errors text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_grave  CONSTANT integer := {grave};
    c_guilty CONSTANT integer := {guilty};
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
    touched := headgate._take_back(v_seqs, v_kinds, v_texts, p_now, p_keep, p_touched);
END $$;

-- How often a job may be lost (retry.py); NULL where its policy cannot be read.
CREATE OR REPLACE FUNCTION headgate._losses(p_retry text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN json_typeof(p_retry::json) = 'array' THEN coalesce((p_retry::json ->> 5)::bigint, 5) END;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- Hold what a worker reports of before keys are locked, and write down how far it has come.   p_seqs   as of the
-- reports
-- Locks: live in order (3).   Reads: live by primary key.
CREATE OR REPLACE FUNCTION headgate._report(p_worker text, p_seqs bigint[], p_attempts integer[], p_kinds text[],
                                            p_texts text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM headgate.live l
    WHERE l.seq = ANY (p_seqs) AND l.worker || '' = p_worker AND l.state || '' = 'running' ORDER BY l.seq FOR UPDATE;
    IF 'p' = ANY (p_kinds) THEN
        UPDATE headgate.live l SET progress = r.said
        FROM unnest(p_seqs, p_attempts, p_kinds, p_texts) AS r (seq, attempt, kind, said)
        WHERE r.kind = 'p' AND l.seq = r.seq AND l.attempt = r.attempt AND l.worker || '' = p_worker
            AND l.state || '' = 'running';
    END IF;
END $$;

-- A pending job is cancelled; returns the keys to offer.   The caller holds it.
CREATE OR REPLACE FUNCTION headgate._cancel_pending(p_seq bigint, p_now bigint, p_keep bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    e record;
BEGIN
    e := headgate._end(NULL, NULL, NULL, ARRAY[p_seq], '{k}', NULL, NULL, p_now, p_keep);
    RETURN e.touched;
END $$;

-- A job whose row in `live` is gone (or never was) is scheduled.   The caller holds its row in `jobs`. One that can be
-- updated has given its unique key free if it has started before.
CREATE OR REPLACE FUNCTION headgate._schedule(p_seq bigint, p_due bigint, p_attempt integer, p_tries integer,
                                              p_error text, p_progress text, p_start_by bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, unique_key, key_free,
                               attempt, tries, error, progress, share, start_by)
    SELECT j.seq, j.task, j.queue, j.tenant, j.priority, p_due, 'scheduled', j.use_keys, j.use_units, j.unique_key,
           coalesce(j.updates AND p_attempt > 0 AND j.unique_key IS NOT NULL, false), p_attempt, p_tries, p_error,
           p_progress, j.share, p_start_by
    FROM headgate.jobs j WHERE j.seq = p_seq;
END $$;
