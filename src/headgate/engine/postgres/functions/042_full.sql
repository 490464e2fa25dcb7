-- What becomes of a job for which there is no room (rule 19): it waits, leaves, or others leave for it. Mirrors full.py
-- and turned_away.py.
--
-- A newcomer that a limit may turn away is scheduled, due at once, and marked (`newcomer`): it arrives with the next
-- exchange that has places to fill, or the next sweep. One that a limit may only refuse stands in line like any other:
-- whether a call is refused is decided by what is committed and visible when it comes (`_backlog_full`).

-- Whether any limit turns jobs away or refuses them.   Reads: limits_policy.
CREATE OR REPLACE FUNCTION headgate._any_policy() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM headgate.limits l WHERE l.policy);
END $$;

-- Whether a limit may do so with a job that uses these keys.   p_refuses   whether refusing counts
-- Reads: limits by primary key.
CREATE OR REPLACE FUNCTION headgate._has_policy(p_task text, p_queue text, p_keys text[], p_refuses boolean) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM headgate.limits l
        WHERE l.policy AND l.name IN (SELECT headgate._name(u.key) FROM unnest(p_keys) AS u (key)
                                      UNION ALL VALUES ('queue:' || p_queue), ('task:' || p_task))
          AND (p_refuses OR l.when_full <> 'wait' OR l.on_overflow <> 'refuse'));
END $$;

CREATE OR REPLACE FUNCTION headgate._may_be_turned_away(p_seqs bigint[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM headgate.live j WHERE j.seq = ANY (p_seqs)
                   AND headgate._has_policy(j.task, j.queue, j.use_keys, false));
END $$;

-- How many jobs wait on a key, in all queues, counted up to a number.   Reads: live_waiting.
CREATE OR REPLACE FUNCTION headgate._count_waiting(p_key text, p_most bigint, p_except bigint[]) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT count(*) FROM (
        SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.seq <> ALL (p_except)
        LIMIT p_most) AS c);
END $$;

-- How many jobs of a queue are ready or waiting, counted up to a number.
-- Reads: live_ready, live_aside, live_suspects, live_lined.
CREATE OR REPLACE FUNCTION headgate._count_pending(p_queue text, p_most bigint, p_except bigint[]) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT count(*) FROM (
        SELECT 1 FROM headgate._pending(p_queue) AS p WHERE p.seq <> ALL (p_except) LIMIT p_most) AS c);
END $$;

-- The ready and waiting jobs of a queue, in no order.
CREATE OR REPLACE FUNCTION headgate._pending(p_queue text)
RETURNS TABLE (seq bigint, priority smallint, tag bigint, due bigint)
LANGUAGE sql STABLE AS $$
    SELECT j.seq, j.priority, j.tag, j.due FROM headgate.live j
    WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 AND j.queue = p_queue
    UNION ALL
    SELECT j.seq, j.priority, j.tag, j.due FROM headgate.live j WHERE j.set_aside AND j.queue = p_queue
    UNION ALL
    SELECT j.seq, j.priority, j.tag, j.due FROM headgate.live j
    WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0 AND j.queue = p_queue
    UNION ALL
    SELECT j.seq, j.priority, j.tag, j.due FROM headgate.live j
    WHERE octet_length(j.queue) >= 0 AND (j.state = 'waiting' OR j.state = 'scheduled') AND j.queue = p_queue
      AND j.state = 'waiting'
$$;

-- Of the jobs that wait on a key, in all queues, the first in order among those of the least urgent priority.
-- Reads: live_waiting, two steps for each queue.
CREATE OR REPLACE FUNCTION headgate._last_in_line(p_key text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        WITH RECURSIVE q (queue) AS (
            SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = p_key
            UNION ALL
            SELECT (SELECT min(j.queue) FROM headgate.live j
                    WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue > q.queue)
            FROM q WHERE q.queue IS NOT NULL
        ), lowest AS (
            SELECT q.queue, (SELECT max(j.priority) FROM headgate.live j
                             WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue = q.queue) AS priority
            FROM q WHERE q.queue IS NOT NULL
        )
        SELECT h.seq FROM lowest w CROSS JOIN LATERAL (
            SELECT j.seq, j.tag, j.due FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue = w.queue AND j.priority = w.priority
            ORDER BY j.priority, j.tag, j.due, j.seq LIMIT 1
        ) AS h
        WHERE w.priority = (SELECT max(m.priority) FROM lowest m)
        ORDER BY h.tag, h.due, h.seq LIMIT 1);
END $$;

-- Likewise of the ready and waiting jobs of a queue, of which there are hardly more than it may have.
CREATE OR REPLACE FUNCTION headgate._last_pending(p_queue text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p.seq FROM headgate._pending(p_queue) AS p ORDER BY p.priority DESC, p.tag, p.due, p.seq LIMIT 1);
END $$;

-- A text as Python writes it: the reasons are the same on every store.
CREATE OR REPLACE FUNCTION headgate._quoted(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT q.mark || replace(replace(replace(replace(CASE WHEN q.mark = '"' THEN t.text ELSE replace(t.text, '''', '\''') END,
               E'\n', '\n'), E'\r', '\r'), E'\t', '\t'), E'\x1b' || '0', '\x00') || q.mark
    FROM (SELECT replace(p_text, '\', '\\') AS text) AS t,
         LATERAL (SELECT CASE WHEN strpos(t.text, '''') > 0 AND strpos(t.text, '"') = 0 THEN '"' ELSE '''' END AS mark) AS q
$$;

-- A key in a reason.
CREATE OR REPLACE FUNCTION headgate._shown(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT headgate._quoted(headgate._text(p_key))
           || CASE WHEN headgate._tenant(p_key) <> '' THEN ' of tenant ' || headgate._quoted(headgate._tenant(p_key)) ELSE '' END
$$;

-- Pending jobs end as cancelled, with a reason; returns the keys to offer, of which this step holds all: those that it
-- cannot have at once are noted.   The caller holds the jobs.
CREATE OR REPLACE FUNCTION headgate._leave(p_seqs bigint[], p_reason text, p_now bigint, p_keep bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    e record;
BEGIN
    IF cardinality(p_seqs) = 0 THEN
        RETURN '{}';
    END IF;
    e := headgate._end(NULL, NULL, NULL, p_seqs, array_fill('k'::text, ARRAY[cardinality(p_seqs)]),
                       array_fill(p_reason, ARRAY[cardinality(p_seqs)]), NULL, p_now, p_keep);
    IF e.touched = '{}' OR headgate._try_keys(ARRAY(SELECT DISTINCT k FROM unnest(e.touched) AS k)) THEN
        RETURN e.touched;
    END IF;
    INSERT INTO headgate.rechecks (key) SELECT DISTINCT k FROM unnest(e.touched) AS k;
    RETURN '{}';
END $$;

-- Those of some jobs that are pending and that no other step holds.   Locks: they (5), SKIP LOCKED.
CREATE OR REPLACE FUNCTION headgate._hold_pending(p_seqs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN ARRAY(SELECT l.seq FROM headgate.live l WHERE l.seq = ANY (p_seqs) AND l.state IN ('ready', 'waiting')
                 ORDER BY l.seq FOR UPDATE SKIP LOCKED);
END $$;

-- Whether the queue takes another job, or made room for it; one that may not enter has left.
-- `touched` are keys to offer, all held.   The caller holds the job.
CREATE OR REPLACE FUNCTION headgate._may_enter(p_seq bigint, p_now bigint, p_keep bigint[],
                                               OUT stays boolean, OUT touched text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    j record;
    l record;
BEGIN
    stays := true;
    touched := '{}';
    SELECT x.queue, x.priority INTO j FROM headgate.live x WHERE x.seq = p_seq;
    SELECT x.max_waiting, x.on_overflow INTO l FROM headgate.limits x WHERE x.name = 'queue:' || j.queue;
    IF l.max_waiting IS NULL OR headgate._count_pending(j.queue, l.max_waiting, '{}') < l.max_waiting THEN
        RETURN;
    END IF;
    SELECT o.stays, o.touched INTO stays, touched
    FROM headgate._overflow(p_seq, j.priority, l.max_waiting, l.on_overflow, 'c0:queue:' || j.queue,
                            headgate._last_pending(j.queue), p_now, p_keep) AS o;
END $$;

-- Whether the job stands in the line of the key that refused it; one that may not has left. `stays` is NULL where that
-- cannot be decided at this moment: it is to come again.
-- `touched` are keys to offer, all held.   The caller holds the job and the key.   Reads: live_waiting, holders.
CREATE OR REPLACE FUNCTION headgate._may_wait(p_seq bigint, p_key text, p_now bigint, p_keep bigint[],
                                              OUT stays boolean, OUT touched text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_slice CONSTANT integer := {replaced_most};
    j record;
    l record;
    v_over record;
BEGIN
    stays := true;
    touched := '{}';
    SELECT x.when_full, x.max_waiting, x.on_overflow INTO l FROM headgate.limits x
    WHERE x.name = headgate._name(p_key) AND x.policy;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT o.id, x.priority INTO j FROM headgate.live x JOIN headgate.jobs o ON o.seq = x.seq WHERE x.seq = p_seq;
    IF l.when_full = 'drop' THEN
        touched := headgate._leave(ARRAY[p_seq], format('dropped: limit %s was full (when_full=''drop'')',
                                                        headgate._shown(p_key)), p_now, p_keep);
        stays := false;
        RETURN;
    ELSIF l.when_full = 'replace' THEN
        touched := headgate._leave(
            headgate._hold_pending(ARRAY(SELECT w.seq FROM headgate.live w
                                         WHERE w.state = 'waiting' AND w.waiting_on = p_key LIMIT c_slice)),
            format('replaced: job %s came for limit %s (when_full=''replace'')', headgate._quoted(j.id),
                   headgate._shown(p_key)), p_now, p_keep);
    ELSIF l.when_full = 'cancel' AND NOT headgate._stop_longest(p_key) THEN
        stays := NULL;
        RETURN;
    END IF;
    IF l.max_waiting IS NULL OR p_key LIKE 'c0:queue:%'
        OR headgate._count_waiting(p_key, l.max_waiting, '{}') < l.max_waiting THEN
        RETURN;
    END IF;
    v_over := headgate._overflow(p_seq, j.priority, l.max_waiting, l.on_overflow, p_key, headgate._last_in_line(p_key), p_now,
                            p_keep);
    stays := v_over.stays;
    touched := touched || v_over.touched;
END $$;

-- More wait than may.   p_last   the one that goes first, if any
CREATE OR REPLACE FUNCTION headgate._overflow(p_seq bigint, p_priority smallint, p_most bigint, p_policy text, p_key text,
                                              p_last bigint, p_now bigint, p_keep bigint[],
                                              OUT stays boolean, OUT touched text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_reason text := format('dropped: %s jobs wait for %s already (max_waiting)', p_most, headgate._shown(p_key));
BEGIN
    stays := true;
    touched := '{}';
    IF p_policy = 'refuse' THEN
        RETURN;
    END IF;
    IF p_policy = 'drop_newest' OR p_last IS NULL
        OR p_priority > (SELECT x.priority FROM headgate.live x WHERE x.seq = p_last) THEN
        stays := false;
        touched := headgate._leave(ARRAY[p_seq], v_reason, p_now, p_keep);
    ELSE
        -- One that another step holds is about to leave by itself, as likely as not.
        touched := headgate._leave(headgate._hold_pending(ARRAY[p_last]), v_reason, p_now, p_keep);
    END IF;
END $$;

-- Of a key's running holders that were not asked to stop yet, the one that has held it longest is asked to. False where
-- another step holds it: it may be about to end.   Locks: its row (5), SKIP LOCKED.   Reads: holders by primary key.
CREATE OR REPLACE FUNCTION headgate._stop_longest(p_key text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_seq bigint;
BEGIN
    SELECT h.job INTO v_seq FROM headgate.holders h JOIN headgate.live l ON l.seq = h.job
    WHERE h.key = p_key AND NOT h.reserved AND NOT l.cancel_requested ORDER BY h.since, h.job LIMIT 1;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    PERFORM 1 FROM headgate.live l WHERE l.seq = v_seq AND l.state = 'running' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE headgate.live l SET cancel_requested = true WHERE l.seq = v_seq;
    RETURN true;
END $$;

-- Whether a call's new jobs are one too many for a limit that refuses such (max_waiting): which key, and how many may
-- wait. The walk of _arrive, without locks, by what is committed and visible now: a call that is under way elsewhere is
-- not counted, and two at once may exceed the bound by what each brings. Where newcomers stand in line that no step has
-- looked at, those count as waiting for which there is no room.
-- p_seqs     the new jobs, stored by this very transaction, in order
-- p_except   jobs that do not count: these, and those that they replace
-- Reads: live by primary key, live_offered, live_waiting, holders.
CREATE OR REPLACE FUNCTION headgate._backlog_full(p_seqs bigint[], p_except bigint[], p_now bigint,
                                                  OUT key text, OUT most bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_caps   boolean := headgate._any_caps();
    v_seen   text[] := '{}';   -- the keys that were asked: what each has left beyond its line, how many wait, how many may
    v_room   bigint[] := '{}';
    v_wait   bigint[] := '{}';
    v_most   bigint[] := '{}';
    v_lines  boolean[] := '{}';  -- whether one must wait although there is room
    v_queues text[] := '{}';   -- likewise the queues
    v_fill   bigint[] := '{}';
    v_bound  bigint[] := '{}';
    j        record;
    k        record;
    p        integer;
    v_tight  integer;
    v_units  bigint;
BEGIN
    FOR j IN
        SELECT l.queue, u.keys, u.units FROM unnest(p_seqs) WITH ORDINALITY AS s (seq, n)
        JOIN headgate.live l ON l.seq = s.seq, headgate._uses_of(l.task, l.queue, l.use_keys, l.use_units, v_caps) AS u
        WHERE l.due <= p_now ORDER BY s.n
    LOOP
        p := array_position(v_queues, j.queue);
        IF p IS NULL THEN
            v_queues := v_queues || j.queue;
            p := cardinality(v_queues);
            v_bound := array_append(v_bound, (SELECT x.max_waiting FROM headgate.limits x
                WHERE x.name = 'queue:' || j.queue AND x.max_waiting IS NOT NULL AND x.on_overflow = 'refuse'));
            v_fill := array_append(v_fill, CASE WHEN v_bound[p] IS NOT NULL
                                                THEN headgate._count_pending(j.queue, v_bound[p], p_except) END);
        END IF;
        IF v_fill[p] >= v_bound[p] THEN
            key := 'c0:queue:' || j.queue;
            most := v_bound[p];
            RETURN;
        END IF;
        v_fill[p] := v_fill[p] + 1;
        v_tight := NULL;
        FOR i IN 1 .. coalesce(cardinality(j.keys), 0) LOOP
            p := array_position(v_seen, j.keys[i]);
            IF p IS NULL THEN
                SELECT f.free - coalesce((SELECT sum(o.units)::bigint FROM headgate.live o
                                          WHERE o.offered_by = f.key AND o.queue = j.queue), 0) AS room, f.lines_up,
                       EXISTS (SELECT 1 FROM headgate.rechecks c WHERE c.key = f.key) AS unmet,
                       CASE WHEN l.on_overflow = 'refuse' THEN l.max_waiting END AS most
                INTO k FROM headgate._free(j.keys[i : i], p_now) AS f
                LEFT JOIN headgate.limits l ON l.name = headgate._name(f.key);
                k.room := least(greatest(k.room, 0), {offer_most});
                v_seen := v_seen || j.keys[i];
                p := cardinality(v_seen);
                v_most := array_append(v_most, k.most);
                v_wait := v_wait || headgate._count_waiting(
                    j.keys[i], coalesce(k.most, 0) + 1 + CASE WHEN k.unmet THEN k.room ELSE 0 END, p_except);
                v_lines := v_lines || (NOT k.unmet AND k.lines_up AND v_wait[p] > 0);
                v_room := v_room || CASE WHEN k.unmet THEN greatest(k.room - v_wait[p], 0) ELSE k.room END;
                IF k.unmet THEN
                    v_wait[p] := greatest(v_wait[p] - k.room, 0);
                END IF;
            END IF;
            IF v_room[p] < j.units[i] OR v_lines[p] OR v_wait[p] > 0 THEN
                IF v_wait[p] >= v_most[p] AND j.keys[i] NOT LIKE 'c0:queue:%' THEN
                    key := j.keys[i];
                    most := v_most[p];
                    RETURN;
                END IF;
                v_wait[p] := v_wait[p] + 1;
                v_tight := NULL;
                EXIT;
            END IF;
            IF v_tight IS NULL OR v_room[p] < v_room[v_tight] THEN
                v_tight := p;
                v_units := j.units[i];
            END IF;
        END LOOP;
        IF v_tight IS NOT NULL THEN
            v_room[v_tight] := v_room[v_tight] - v_units;
        END IF;
    END LOOP;
END $$;
