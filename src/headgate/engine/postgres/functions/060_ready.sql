-- What there is besides plain lines of ready jobs: jobs that were set aside, paused queues, caps of tasks or queues, ready
-- suspects; due jobs with a share, and newcomers that are yet to arrive. In FROM it melts into the caller's plan.
CREATE OR REPLACE FUNCTION headgate._lines()
RETURNS TABLE (aside boolean, paused boolean, capped boolean, suspects boolean, shared boolean, newcomers boolean)
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM headgate.live j WHERE j.set_aside), EXISTS (SELECT 1 FROM headgate.paused),
           EXISTS (SELECT 1 FROM headgate.limits l WHERE l.cap AND l.kind <> 'rate')
               OR EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.cap),
           EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0),
           EXISTS (SELECT 1 FROM headgate.live j WHERE j.share IS NOT NULL
               AND (j.state = 'ready' OR j.state = 'waiting' OR j.newcomer)),
           EXISTS (SELECT 1 FROM headgate.live j WHERE j.newcomer)
$$;

-- The lines of jobs that were set aside and that a claim has to read, the first of each at most `mosts`: those whose
-- task was unknown and that the worker knows, and those that lacked a thread; but none for which it has no thread to spare.
-- p_threads   how many of p_threaded may be started; NULL: any number
-- Reads: live_aside, one step for each line.
CREATE OR REPLACE FUNCTION headgate._aside_lines(p_known text[], p_threaded text[], p_threads integer, p_most integer,
                                                 OUT queues text[], OUT tasks text[], OUT lacking boolean[],
                                                 OUT mosts integer[])
LANGUAGE plpgsql STABLE AS $$
BEGIN
    WITH RECURSIVE line (queue, task, lacks) AS (
        (SELECT j.queue, j.task, j.lacks_thread FROM headgate.live j WHERE j.set_aside
         ORDER BY j.queue, j.task, j.lacks_thread LIMIT 1)
        UNION ALL
        SELECT n.* FROM line l CROSS JOIN LATERAL (
            SELECT j.queue, j.task, j.lacks_thread FROM headgate.live j
            WHERE j.set_aside AND (j.queue, j.task, j.lacks_thread) > (l.queue, l.task, l.lacks)
            ORDER BY j.queue, j.task, j.lacks_thread LIMIT 1) AS n
    )
    SELECT coalesce(array_agg(u.queue), '{}'), coalesce(array_agg(u.task), '{}'), coalesce(array_agg(u.lacks), '{}'),
           coalesce(array_agg(u.most), '{}')
    INTO queues, tasks, lacking, mosts
    FROM (
        SELECT l.*, CASE WHEN p_threads IS NOT NULL AND l.task = ANY (p_threaded) THEN least(p_most, p_threads)
                         ELSE p_most END AS most
        FROM line l WHERE l.lacks OR l.task = ANY (p_known)
    ) AS u WHERE u.most > 0;
END $$;

-- The next jobs that a worker may claim, locked: queue after queue as given, or across all of them (NULL).
-- p_except   jobs that this step has decided to leave alone
-- p_known    the tasks that the worker knows; p_threaded those of them of which it starts p_threads at most (NULL: any
--            number)
-- p_worker, p_places   the worker that claims, and its concurrency, for which suspects it takes on
-- p_heavy    whether these may be suspects of a level above 1
-- `spare` says that more rows were locked than are returned: others may have passed over them meanwhile.
-- `limited` says that some of these jobs have keys or caps, were offered or refused, are too late, or are of tasks that the
-- worker does not know, or has no thread for.   p_aside, p_paused, p_capped, p_suspects   as _lines says
-- A queue has ready jobs, jobs that were set aside (a line for each task and reason), and suspects. Most of the time
-- there is one line. A grave suspect comes before all others, lighter ones where their order puts them.
-- Locks: live (3), SKIP LOCKED.   Reads: live_ready, live_aside, live_suspects, in index order.
CREATE OR REPLACE FUNCTION headgate._ready(p_queues text[], p_known text[], p_threaded text[], p_threads integer,
                                           p_most integer, p_except bigint[], p_worker text, p_places integer,
                                           p_heavy boolean, p_now bigint, p_aside boolean, p_paused boolean,
                                           p_capped boolean, p_suspects boolean,
                                           OUT seqs bigint[], OUT spare boolean, OUT limited boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_first  text;
    v_last   text;
    v_queues text[] := p_queues;
    v_queue  text;
    v_most   integer;
    v_found  bigint[];
    v_some   boolean;
    v_able   text[] := p_known;    -- the tasks that may be started at all
    v_queues_of  text[] := '{}';   -- the lines of jobs that were set aside
    v_tasks_of   text[] := '{}';
    v_lacking_of boolean[] := '{}';
    v_most_of    integer[] := '{}';
    v_suspects bigint[] := '{}';
    v_grave  bigint[] := '{}';
BEGIN
    spare := false;
    IF p_threads = 0 THEN
        v_able := ARRAY(SELECT u.task FROM unnest(p_known) AS u (task) WHERE u.task <> ALL (p_threaded));
    END IF;
    IF p_aside THEN
        SELECT l.queues, l.tasks, l.lacking, l.mosts INTO v_queues_of, v_tasks_of, v_lacking_of, v_most_of
        FROM headgate._aside_lines(p_known, p_threaded, p_threads, p_most) AS l;
    END IF;
    IF p_suspects OR v_queues_of <> '{}' THEN
        SELECT s.grave || s.light, s.grave INTO v_suspects, v_grave
        FROM headgate._suspects(p_queues, v_able, v_queues_of, v_tasks_of, v_lacking_of, p_most, p_except, p_worker,
                                p_places, p_heavy, p_now) AS s;
    END IF;
    IF p_queues IS NULL AND v_queues_of = '{}' AND NOT p_paused AND v_suspects = '{}' THEN
        -- One line is all there is, most of the time: it is read from its front once.
        SELECT coalesce(array_agg(l.seq), '{}'), p_capped OR coalesce(bool_or(l.limited), false), min(l.queue),
               (SELECT max(j.queue) FROM headgate.live j
                WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0)
        INTO seqs, limited, v_first, v_last FROM (
            SELECT j.seq, j.queue, j.use_keys IS NOT NULL OR j.offered_by IS NOT NULL OR j.refusals IS NOT NULL
                   OR j.task <> ALL (v_able) OR j.start_by <= p_now AS limited
            FROM headgate.live j
            WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 AND j.seq <> ALL (p_except)
            ORDER BY j.queue, j.priority, j.tag, j.due, j.seq LIMIT p_most
            FOR UPDATE SKIP LOCKED
        ) AS l;
        IF v_first IS NULL OR v_first = v_last THEN
            RETURN;
        END IF;
    END IF;
    seqs := '{}';
    limited := p_capped OR cardinality(v_grave) > 0;
    IF p_queues IS NULL THEN
        WITH RECURSIVE ready (queue) AS (
            SELECT min(j.queue) FROM headgate.live j
            WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0
            UNION ALL
            SELECT (SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside
                        AND j.suspicion = 0 AND j.queue > r.queue)
            FROM ready r WHERE r.queue IS NOT NULL
        )
        SELECT array_agg(u.queue) INTO v_queues FROM (
            SELECT r.queue FROM ready r WHERE r.queue IS NOT NULL
            UNION SELECT a.queue FROM unnest(v_queues_of) AS a (queue)
            UNION SELECT j.queue FROM headgate.live j WHERE j.seq = ANY (v_suspects)
        ) AS u;
    END IF;
    IF p_paused OR cardinality(v_queues) > 1 THEN
        SELECT array_agg(u.queue ORDER BY u.n) INTO v_queues FROM (
            SELECT q.queue, min(q.n) AS n FROM unnest(v_queues) WITH ORDINALITY AS q (queue, n)
            WHERE NOT EXISTS (SELECT 1 FROM headgate.paused x WHERE x.queue = q.queue) GROUP BY q.queue
        ) AS u;
    END IF;

    v_most := p_most - cardinality(v_grave);
    FOREACH v_queue IN ARRAY coalesce(v_queues, '{}') LOOP
        EXIT WHEN v_most <= 0;
        SELECT array_agg(l.seq ORDER BY l.priority, l.tag, l.due, l.seq), bool_or(l.limited)
        INTO v_found, v_some FROM (
            SELECT r.* FROM (
                SELECT j.seq, j.priority, j.tag, j.due, j.use_keys IS NOT NULL OR j.offered_by IS NOT NULL
                       OR j.refusals IS NOT NULL OR j.task <> ALL (v_able) OR j.start_by <= p_now AS limited
                FROM headgate.live j
                WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 AND j.queue = v_queue
                    AND j.seq <> ALL (p_except)
                ORDER BY j.priority, j.tag, j.due, j.seq
                LIMIT v_most
                FOR UPDATE SKIP LOCKED
            ) AS r
            UNION ALL
            SELECT a.* FROM unnest(v_queues_of, v_tasks_of, v_lacking_of, v_most_of) AS s (queue, task, lacks, most)
            CROSS JOIN LATERAL (
                SELECT j.seq, j.priority, j.tag, j.due, j.use_keys IS NOT NULL OR j.offered_by IS NOT NULL
                       OR j.refusals IS NOT NULL OR j.task <> ALL (v_able) OR j.start_by <= p_now
                FROM headgate.live j
                WHERE j.set_aside AND j.queue = v_queue AND j.task = s.task AND j.lacks_thread = s.lacks
                    AND least(j.suspicion, 1) = 0 AND j.seq <> ALL (p_except)
                ORDER BY j.priority, j.tag, j.due, j.seq
                LIMIT least(v_most, s.most)
                FOR UPDATE SKIP LOCKED
            ) AS a WHERE s.queue = v_queue
            UNION ALL
            SELECT j.seq, j.priority, j.tag, j.due, true FROM headgate.live j
            WHERE j.seq = ANY (v_suspects) AND j.seq <> ALL (v_grave) AND j.queue = v_queue
        ) AS l;
        limited := limited OR coalesce(v_some, false);
        seqs := seqs || v_found;
        IF p_queues IS NOT NULL THEN
            v_most := p_most - cardinality(v_grave) - cardinality(seqs);
        END IF;
    END LOOP;

    IF p_queues IS NULL AND cardinality(v_queues) > 1 THEN
        SELECT array_agg(m.seq ORDER BY m.priority, m.tag, m.due, m.seq) INTO seqs FROM (
            SELECT j.seq, j.priority, j.tag, j.due FROM headgate.live j WHERE j.seq = ANY (seqs)) AS m;
    END IF;
    seqs := v_grave || seqs;
    spare := cardinality(seqs) > p_most;
    seqs := seqs[1 : p_most];
    spare := spare OR NOT v_suspects <@ seqs;
END $$;

-- The suspects that a worker may take on now (blame.py: Room), the gravest first, and those that it cannot start among
-- them, which the walker sets aside.
-- p_able    the tasks that it may start; p_aside_queues, p_aside_tasks, p_lacking: as _aside_lines says
-- p_most    how many of each queue, or of all, are looked at
-- `grave`   those of level 3 and above, in the order in which they are tried; `light` the others
-- Locks: those it returns (3), SKIP LOCKED.   Reads: live_suspects, live_aside, live_running.
CREATE OR REPLACE FUNCTION headgate._suspects(p_queues text[], p_able text[], p_aside_queues text[],
                                              p_aside_tasks text[], p_lacking boolean[], p_most integer,
                                              p_except bigint[], p_worker text, p_places integer, p_heavy boolean, p_now bigint,
                                              OUT grave bigint[], OUT light bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_apart  CONSTANT integer := {apart};
    c_grave  CONSTANT integer := {grave};
    v_empty  boolean;          -- whether it runs no suspect, and will run none
    v_closed boolean;
    v_apart  integer;          -- how many more of level 2 it may run
    v_most   integer := CASE WHEN p_heavy THEN c_grave ELSE c_apart - 1 END;
    v_found  bigint[] := '{}';
    r        record;
BEGIN
    SELECT count(*) = 0, coalesce(bool_or(l.level >= c_grave), false),
           greatest(1, p_places / {kept_apart}) - count(*) FILTER (WHERE l.level >= c_apart)
    INTO v_empty, v_closed, v_apart
    FROM (SELECT headgate._level(j.suspicion, j.lost_after, j.started_at, p_now) AS level FROM headgate.live j
          WHERE j.state = 'running' AND j.worker = p_worker AND j.suspicion > 0) AS l
    WHERE l.level > 0;
    FOR r IN
        WITH RECURSIVE there (queue) AS (
            SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0
            UNION ALL
            SELECT (SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside
                        AND j.suspicion > 0 AND j.queue > t.queue)
            FROM there t WHERE t.queue IS NOT NULL
        ), queues AS (
            SELECT q.queue, min(q.n) AS n FROM (
                SELECT u.queue, u.n FROM unnest(p_queues) WITH ORDINALITY AS u (queue, n)
                UNION ALL SELECT t.queue, 0 FROM there t WHERE p_queues IS NULL AND t.queue IS NOT NULL
                UNION ALL SELECT a.queue, 0 FROM unnest(p_aside_queues) AS a (queue) WHERE p_queues IS NULL
            ) AS q
            WHERE NOT EXISTS (SELECT 1 FROM headgate.paused x WHERE x.queue = q.queue) GROUP BY q.queue
        )
        SELECT l.seq, l.task = ANY (p_able) AS able, l.suspicion FROM (
            SELECT w.*, q.n, row_number() OVER (PARTITION BY q.n ORDER BY w.gravity DESC, w.priority, w.tag, w.due, w.seq)
                       AS place
            FROM queues q CROSS JOIN LATERAL (
                (SELECT j.seq, j.task, j.suspicion, least(j.suspicion, {grave}) AS gravity, j.priority, j.tag, j.due
                 FROM headgate.live j
                 WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0 AND j.queue = q.queue
                     AND least(j.suspicion, {grave}) <= v_most AND j.seq <> ALL (p_except)
                 ORDER BY least(j.suspicion, {grave}) DESC, j.priority, j.tag, j.due, j.seq LIMIT p_most)
                UNION ALL
                (SELECT j.seq, j.task, j.suspicion, least(j.suspicion, {grave}), j.priority, j.tag, j.due
                 FROM unnest(p_aside_queues, p_aside_tasks, p_lacking) AS a (queue, task, lacks)
                 JOIN headgate.live j ON j.set_aside AND j.queue = a.queue AND j.task = a.task
                     AND j.lacks_thread = a.lacks AND least(j.suspicion, 1) = 1
                 WHERE a.queue = q.queue AND least(j.suspicion, {grave}) <= v_most AND j.seq <> ALL (p_except)
                 ORDER BY least(j.suspicion, {grave}) DESC, j.priority, j.tag, j.due, j.seq LIMIT p_most)
            ) AS w
        ) AS l WHERE l.place <= p_most ORDER BY l.gravity DESC, l.n, l.place
    LOOP
        IF NOT r.able THEN
            v_found := v_found || r.seq;
        ELSIF v_closed OR r.suspicion >= c_grave AND NOT v_empty OR r.suspicion >= c_apart AND v_apart <= 0 THEN
            v_closed := true;  -- the worker takes on no lighter ones until it has room for this
        ELSE
            v_found := v_found || r.seq;
            v_empty := false;
            v_closed := r.suspicion >= c_grave;
            v_apart := v_apart - (r.suspicion >= c_apart)::integer;
        END IF;
    END LOOP;
    SELECT coalesce(array_agg(h.seq ORDER BY array_position(v_found, h.seq)) FILTER (WHERE h.suspicion >= c_grave), '{}'),
           coalesce(array_agg(h.seq) FILTER (WHERE h.suspicion < c_grave), '{}')
    INTO grave, light FROM (
        SELECT j.seq, j.suspicion FROM headgate.live j WHERE j.seq = ANY (v_found) AND j.state = 'ready'
            AND j.suspicion > 0 FOR UPDATE SKIP LOCKED) AS h;
END $$;

-- The next newcomers that are to arrive, held, in the order of lines: of each queue that a worker serves, or of as many as
-- it may well serve (NULL), so many. In that order one of a quiet share need not wait until those of a noisy one arrived.
-- Locks: live (3), SKIP LOCKED.   Reads: live_newcomers, one step for each queue.
CREATE OR REPLACE FUNCTION headgate._newcomers(p_queues text[], p_most integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_queues CONSTANT integer := 64;
    v_queues text[] := p_queues;
    v_queue  text;
    v_seqs   bigint[] := '{}';
BEGIN
    IF v_queues IS NULL THEN
        WITH RECURSIVE q (queue, n) AS (
            SELECT min(j.queue), 1 FROM headgate.live j WHERE j.newcomer
            UNION ALL
            SELECT (SELECT min(j.queue) FROM headgate.live j WHERE j.newcomer AND j.queue > q.queue), q.n + 1
            FROM q WHERE q.queue IS NOT NULL AND q.n < c_queues
        )
        SELECT array_agg(q.queue) INTO v_queues FROM q WHERE q.queue IS NOT NULL;
    END IF;
    FOREACH v_queue IN ARRAY coalesce(v_queues, '{}') LOOP
        v_seqs := v_seqs || ARRAY(
            SELECT j.seq FROM headgate.live j WHERE j.newcomer AND j.queue = v_queue
            ORDER BY j.queue, j.priority, j.tag, j.due, j.seq LIMIT p_most FOR UPDATE SKIP LOCKED);
    END LOOP;
    RETURN v_seqs;
END $$;
