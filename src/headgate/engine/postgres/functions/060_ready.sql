-- What there is besides plain lines of ready jobs: jobs that were set aside, paused queues, caps of tasks or queues, ready
-- suspects. In FROM it melts into the caller's plan.
CREATE OR REPLACE FUNCTION headgate._lines()
RETURNS TABLE (aside boolean, paused boolean, capped boolean, suspects boolean)
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM headgate.live j WHERE j.set_aside), EXISTS (SELECT 1 FROM headgate.paused),
           EXISTS (SELECT 1 FROM headgate.limits l WHERE l.cap AND l.kind <> 'rate')
               OR EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.cap),
           EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0)
$$;

-- The next jobs that a worker may claim, locked: queue after queue as given, or across all of them (NULL).
-- p_except   jobs that this step has decided to leave alone
-- p_worker, p_places   the worker that claims, and its concurrency, for which suspects it takes on
-- p_heavy    whether these may be suspects of a level above 1
-- `spare` says that more rows were locked than are returned: others may have passed over them meanwhile.
-- `limited` says that some of these jobs have keys or caps, were offered or refused, or are of tasks that the worker does
-- not know.   p_aside, p_paused, p_capped, p_suspects   as _lines says
-- A queue has up to three lines: ready jobs, jobs that were set aside, suspects. Most of the time there is one.
-- A grave suspect comes before all others, lighter ones where their order puts them.
-- Locks: live (3), SKIP LOCKED.   Reads: live_ready, live_aside, live_suspects, in index order.
CREATE OR REPLACE FUNCTION headgate._ready(p_queues text[], p_known text[], p_most integer, p_except bigint[],
                                           p_worker text, p_places integer, p_heavy boolean, p_now bigint,
                                           p_aside boolean, p_paused boolean, p_capped boolean, p_suspects boolean,
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
    v_suspects bigint[] := '{}';
    v_grave  bigint[] := '{}';
BEGIN
    spare := false;
    IF p_aside OR p_suspects THEN
        SELECT s.grave || s.light, s.grave INTO v_suspects, v_grave
        FROM headgate._suspects(p_queues, p_known, p_most, p_except, p_worker, p_places, p_heavy, p_now) AS s;
    END IF;
    IF p_queues IS NULL AND NOT p_aside AND NOT p_paused AND v_suspects = '{}' THEN
        -- One line is all there is, most of the time: it is read from its front once.
        SELECT coalesce(array_agg(l.seq), '{}'), p_capped OR coalesce(bool_or(l.limited), false), min(l.queue),
               (SELECT max(j.queue) FROM headgate.live j
                WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0)
        INTO seqs, limited, v_first, v_last FROM (
            SELECT j.seq, j.queue, j.use_keys IS NOT NULL OR j.offered_by IS NOT NULL OR j.refusals IS NOT NULL
                   OR j.task <> ALL (p_known) AS limited
            FROM headgate.live j
            WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 AND j.seq <> ALL (p_except)
            ORDER BY j.queue, j.priority, j.due, j.seq LIMIT p_most
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
            UNION SELECT j.queue FROM headgate.live j WHERE p_aside AND j.set_aside AND j.task = ANY (p_known)
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
        SELECT array_agg(l.seq ORDER BY l.priority, l.due, l.seq), bool_or(l.limited)
        INTO v_found, v_some FROM (
            SELECT r.* FROM (
                SELECT j.seq, j.priority, j.due, j.use_keys IS NOT NULL OR j.offered_by IS NOT NULL
                       OR j.refusals IS NOT NULL OR j.task <> ALL (p_known) AS limited
                FROM headgate.live j
                WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 AND j.queue = v_queue
                    AND j.seq <> ALL (p_except)
                ORDER BY j.priority, j.due, j.seq
                LIMIT v_most
                FOR UPDATE SKIP LOCKED
            ) AS r
            UNION ALL
            SELECT a.* FROM (
                SELECT j.seq, j.priority, j.due, true AS limited FROM headgate.live j
                WHERE p_aside AND j.set_aside AND j.queue = v_queue AND j.task = ANY (p_known)
                    AND j.suspicion = 0 AND j.seq <> ALL (p_except)
                ORDER BY j.priority, j.due, j.seq
                LIMIT v_most
                FOR UPDATE SKIP LOCKED
            ) AS a
            UNION ALL
            SELECT j.seq, j.priority, j.due, true FROM headgate.live j
            WHERE j.seq = ANY (v_suspects) AND j.seq <> ALL (v_grave) AND j.queue = v_queue
        ) AS l;
        limited := limited OR coalesce(v_some, false);
        seqs := seqs || v_found;
        IF p_queues IS NOT NULL THEN
            v_most := p_most - cardinality(v_grave) - cardinality(seqs);
        END IF;
    END LOOP;

    IF p_queues IS NULL AND cardinality(v_queues) > 1 THEN
        SELECT array_agg(m.seq ORDER BY m.priority, m.due, m.seq) INTO seqs FROM (
            SELECT j.seq, j.priority, j.due FROM headgate.live j WHERE j.seq = ANY (seqs)) AS m;
    END IF;
    seqs := v_grave || seqs;
    spare := cardinality(seqs) > p_most;
    seqs := seqs[1 : p_most];
    spare := spare OR NOT v_suspects <@ seqs;
END $$;

-- The suspects that a worker may take on now (blame.py: Room), the gravest first, and those of unknown tasks among
-- them, which the walker sets aside.
-- p_most    how many of each queue, or of all, are looked at
-- `grave`   those of level 3 and above, in the order in which they are tried; `light` the others
-- Locks: those it returns (3), SKIP LOCKED.   Reads: live_suspects, live_aside, live_running.
CREATE OR REPLACE FUNCTION headgate._suspects(p_queues text[], p_known text[], p_most integer, p_except bigint[],
                                              p_worker text, p_places integer, p_heavy boolean, p_now bigint,
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
                UNION ALL SELECT j.queue, 0 FROM headgate.live j
                WHERE p_queues IS NULL AND j.set_aside AND j.task = ANY (p_known) AND j.suspicion > 0
            ) AS q
            WHERE NOT EXISTS (SELECT 1 FROM headgate.paused x WHERE x.queue = q.queue) GROUP BY q.queue
        )
        SELECT l.seq, l.task = ANY (p_known) AS known, l.suspicion FROM (
            SELECT w.*, q.n, row_number() OVER (PARTITION BY q.n ORDER BY w.gravity DESC, w.priority, w.due, w.seq)
                       AS place
            FROM queues q CROSS JOIN LATERAL (
                (SELECT j.seq, j.task, j.suspicion, least(j.suspicion, {grave}) AS gravity, j.priority, j.due
                 FROM headgate.live j
                 WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0 AND j.queue = q.queue
                     AND least(j.suspicion, {grave}) <= v_most AND j.seq <> ALL (p_except)
                 ORDER BY least(j.suspicion, {grave}) DESC, j.priority, j.due, j.seq LIMIT p_most)
                UNION ALL
                (SELECT j.seq, j.task, j.suspicion, least(j.suspicion, {grave}), j.priority, j.due FROM headgate.live j
                 WHERE j.set_aside AND j.queue = q.queue AND j.task = ANY (p_known) AND j.suspicion > 0
                     AND least(j.suspicion, {grave}) <= v_most AND j.seq <> ALL (p_except)
                 ORDER BY least(j.suspicion, {grave}) DESC, j.priority, j.due, j.seq LIMIT p_most)
            ) AS w
        ) AS l WHERE l.place <= p_most ORDER BY l.gravity DESC, l.n, l.place
    LOOP
        IF NOT r.known THEN
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
