-- Rule 5: offer the room of touched keys to their waiters, in order, per queue. Returns how many became ready.
-- p_touched   keys that may have gained room or lost an offer; the caller holds their rows
-- p_ttl       how long an offered job may keep its reservations unclaimed
CREATE OR REPLACE FUNCTION headgate._offer(p_touched text[], p_now bigint, p_ttl bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_next record;
BEGIN
    IF p_touched IS NULL OR cardinality(p_touched) = 0 THEN
        RETURN 0;
    END IF;
    SELECT * INTO v_next FROM headgate._next(p_touched, p_now, NULL);
    PERFORM headgate._make_ready(v_next.seqs, v_next.keys, p_now, p_ttl);
    PERFORM headgate._arm(p_touched, p_now);
    RETURN cardinality(v_next.seqs);
END $$;

-- The decision of an offer: which waiters get the room of touched keys. They still wait: an exchange claims some of
-- them in the same step, from waiting to running in one write, and makes the others ready.
-- `seqs` are held, in the order of a claim from all queues; `keys` are those that offer, one for each.
-- p_known   the tasks of the worker that may claim them
-- `suspects` says that there are some among them; `alone` that each needs one slot of this key and nothing else (caps
-- aside), holds nothing, is of a known task, and that no key offers its room to several queues, so that there is room for
-- all of them together; `cut` that a line may be longer than what is offered at once.
-- A waiter that another step holds, although there is room for it, puts its key into `rechecks`.
-- Locks: waiters (5), SKIP LOCKED.   Reads: live_waiting, live_offered: one step per queue, however many wait.
CREATE OR REPLACE FUNCTION headgate._next(p_touched text[], p_now bigint, p_known text[],
                                          OUT seqs bigint[], OUT keys text[], OUT suspects boolean,
                                          OUT alone boolean, OUT cut boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_touched text[];
    v_room    bigint;
    v_keys    text[];          -- the lines that are offered something, and how much
    v_queues  text[];
    v_rooms   bigint[];
BEGIN
    IF p_touched = '{}' THEN
        seqs := '{}';
        keys := '{}';
        suspects := false;
        cut := false;
        RETURN;
    END IF;
    v_touched := ARRAY(SELECT DISTINCT u.key FROM unnest(p_touched) AS u (key) WHERE u.key IS NOT NULL);
    WITH rooms AS MATERIALIZED (
        SELECT r.key, r.queue, r.n, r.room FROM headgate._rooms(v_touched, p_now) AS r WHERE r.room > 0
    )
    SELECT coalesce(array_agg(w.seq), '{}'), coalesce(array_agg(w.key), '{}'), coalesce(bool_or(w.suspicion > 0), false),
           bool_and(w.n = 1 AND w.use_keys = ARRAY[w.key] AND w.use_units = ARRAY[1::bigint] AND w.refusals = 0
                    AND w.key LIKE 'c%' AND w.task = ANY (p_known) AND (w.start_by <= p_now) IS NOT TRUE),
           (SELECT sum(least(m.room, {offer_most})) FROM rooms m), (SELECT array_agg(m.key) FROM rooms m),
           (SELECT array_agg(m.queue) FROM rooms m), (SELECT array_agg(m.room) FROM rooms m)
    INTO seqs, keys, suspects, alone, v_room, v_keys, v_queues, v_rooms
    FROM (
        SELECT l.*, r.key, r.n FROM rooms r CROSS JOIN LATERAL (
            SELECT i.*, sum(i.units) OVER (ORDER BY i.priority, i.tag, i.due, i.seq) AS total
            FROM (
                SELECT j.seq, j.units, j.suspicion, j.priority, j.tag, j.due, j.task, j.use_keys, j.use_units, j.refusals,
                       j.start_by
                FROM headgate.live j
                WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue
                ORDER BY j.priority, j.tag, j.due, j.seq
                LIMIT least(r.room, {offer_most})
                FOR UPDATE SKIP LOCKED
            ) AS i
        ) AS l
        WHERE l.total <= r.room
        ORDER BY l.priority, l.tag, l.due, l.seq
    ) AS w;
    cut := cardinality(seqs) >= {offer_most};
    IF cardinality(seqs) < v_room THEN
        -- The next waiter of a line was offered nothing: since it needs more than is left, or since another step holds it.
        INSERT INTO headgate.rechecks (key)
        SELECT DISTINCT r.key FROM unnest(v_keys, v_queues, v_rooms) AS r (key, queue, room)
        LEFT JOIN (
            SELECT j.waiting_on AS key, j.queue, count(*) AS given, sum(j.units) AS units FROM headgate.live j
            WHERE j.seq = ANY (seqs) GROUP BY j.waiting_on, j.queue
        ) AS g ON g.key = r.key AND g.queue = r.queue
        WHERE coalesce(g.given, 0) < least(r.room, {offer_most}) AND r.key NOT LIKE 'r%'
          AND (SELECT h.units FROM (
                   SELECT j.seq, j.units FROM headgate.live j
                   WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue
                   ORDER BY j.priority, j.tag, j.due, j.seq LIMIT coalesce(g.given, 0) + 1) AS h
               WHERE h.seq <> ALL (seqs) LIMIT 1) <= r.room - coalesce(g.units, 0);
    END IF;
END $$;

-- What keys may offer to each queue that has waiters there: what is free, beyond what is offered in the queue.   `n` counts
-- the queues of a key.   p_keys   each once. In FROM it melts into the caller's plan; its keys' room is counted once.
-- Reads: live_waiting, live_offered.
CREATE OR REPLACE FUNCTION headgate._rooms(p_keys text[], p_now bigint)
RETURNS TABLE (key text, queue text, n integer, room bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.key, q.queue, q.n, f.free - coalesce((SELECT sum(o.units)::bigint FROM headgate.live o
                                                   WHERE o.offered_by = f.key AND o.queue = q.queue), 0)
    FROM (SELECT x.key, x.free FROM headgate._free(p_keys, p_now) AS x OFFSET 0) AS f
    CROSS JOIN LATERAL (
        WITH RECURSIVE q (queue, n) AS (
            SELECT min(j.queue), 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = f.key
            UNION ALL
            SELECT (SELECT min(j.queue) FROM headgate.live j
                    WHERE j.state = 'waiting' AND j.waiting_on = f.key AND j.queue > q.queue), q.n + 1
            FROM q WHERE q.queue IS NOT NULL
        )
        SELECT q.queue, q.n FROM q WHERE q.queue IS NOT NULL
    ) AS q
    WHERE f.free > 0
$$;

-- Waiters may be claimed now, each promised room of a key.   The caller holds them.
CREATE OR REPLACE FUNCTION headgate._make_ready(p_seqs bigint[], p_keys text[], p_now bigint, p_ttl bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF cardinality(p_seqs) > 0 THEN
        UPDATE headgate.live j SET state = 'ready', waiting_on = NULL, offered_by = c.key
        FROM unnest(p_seqs, p_keys) AS c (seq, key) WHERE j.seq = c.seq;
        UPDATE headgate.holders h SET expires_at = p_now + p_ttl WHERE h.job = ANY (p_seqs);
    END IF;
END $$;

-- A rate key keeps one timer: when the first of its queues' heads will find its tokens; so does a throttled key, while
-- jobs wait on it: when it opens further.   p_keys   these and others
-- The caller holds the keys.   Reads: live_waiting, live_offered.
CREATE OR REPLACE FUNCTION headgate._arm(p_keys text[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_key  text;
    v_at   bigint;
    v_done text[] := '{}';
    v_gated boolean := EXISTS (SELECT 1 FROM headgate.gates);
BEGIN
    FOREACH v_key IN ARRAY p_keys LOOP
        CONTINUE WHEN v_key NOT LIKE 'r%' AND NOT v_gated OR v_key = ANY (v_done);
        v_done := v_done || v_key;
        IF v_key NOT LIKE 'r%' THEN
            CONTINUE WHEN NOT EXISTS (SELECT 1 FROM headgate.gates g WHERE g.key = v_key);
            v_at := CASE WHEN EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = v_key)
                         THEN headgate._opens_further(v_key, p_now) END;
            PERFORM headgate._set_timer(v_key, v_at);
            CONTINUE;
        END IF;
        WITH RECURSIVE q (queue) AS (
            SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = v_key
            UNION ALL
            SELECT (SELECT min(j.queue) FROM headgate.live j
                    WHERE j.state = 'waiting' AND j.waiting_on = v_key AND j.queue > q.queue)
            FROM q WHERE q.queue IS NOT NULL
        )
        SELECT min(headgate._when(v_key, h.units + coalesce((
                   SELECT sum(o.units)::bigint FROM headgate.live o
                   WHERE o.offered_by = v_key AND o.queue = q.queue), 0), p_now))
        INTO v_at
        FROM q CROSS JOIN LATERAL (
            SELECT j.units FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = v_key AND j.queue = q.queue
            ORDER BY j.priority, j.tag, j.due, j.seq LIMIT 1
        ) AS h
        WHERE q.queue IS NOT NULL;
        PERFORM headgate._set_timer(v_key, v_at);
    END LOOP;
END $$;

-- Set the one timer of a key, or clear it (NULL).   The caller holds the key.
CREATE OR REPLACE FUNCTION headgate._set_timer(p_key text, p_at bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_at IS NULL THEN
        DELETE FROM headgate.timers t WHERE t.key = p_key;
    ELSE
        INSERT INTO headgate.timers (key, at) VALUES (p_key, p_at)
        ON CONFLICT (key) DO UPDATE SET at = excluded.at WHERE timers.at <> excluded.at;
    END IF;
END $$;

-- Keys that have to be looked at, taken off the list: the caller looks at them in this very step.
-- p_most     how many places there are to fill. Some more keys are looked at, since not all of them have room; of many,
--            those whose first waiters come first in the order of a claim.
-- p_queues   the queues that are claimed from, in this order; NULL: all of them
-- Entries are read in the order in which they came; beside them, in the order of lines, those of newcomers with a share,
-- so that a newcomer of a quiet share need not wait for a hundred thousand of a noisy one to be looked at. All that was
-- noted of a key goes with it, a bounded number at a time, and so do numbers that were brought for it before the latest.
-- Locks: rechecks, brought, SKIP LOCKED.   Reads: rechecks from its front, rechecks_tag, rechecks_key, live_waiting.
CREATE OR REPLACE FUNCTION headgate._checks(p_most integer, p_queues text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_more CONSTANT integer := 16;
    v_keys text[];
BEGIN
    SELECT array_agg(DISTINCT f.key) INTO v_keys FROM (
        SELECT r.key FROM headgate.rechecks r WHERE r.ctid > '(0,0)'::tid LIMIT p_most + 3 * c_more) AS f;
    IF EXISTS (SELECT 1 FROM headgate.rechecks r WHERE r.tag > 0) THEN
        v_keys := ARRAY(SELECT u.key FROM unnest(v_keys) AS u (key)
                        UNION SELECT n.key FROM headgate._noted(p_most + c_more, p_queues) AS n);
    END IF;
    IF cardinality(v_keys) > p_most + c_more THEN
        SELECT array_agg(o.key) INTO v_keys FROM (
            SELECT f.key FROM unnest(v_keys) AS f (key) LEFT JOIN LATERAL headgate._head(f.key, p_queues) AS h ON true
            ORDER BY h.place NULLS LAST, h.priority, h.tag, h.due, h.seq LIMIT p_most + c_more
        ) AS o;
    END IF;
    IF v_keys IS NULL THEN
        RETURN '{}';
    END IF;
    WITH gone AS (
        DELETE FROM headgate.rechecks c WHERE c.ctid = ANY (ARRAY(
            SELECT r.ctid FROM unnest(v_keys) AS k (key) CROSS JOIN LATERAL (
                SELECT e.ctid FROM headgate.rechecks e WHERE e.key = k.key LIMIT {offer_most}
                FOR UPDATE SKIP LOCKED) AS r))
        RETURNING c.key
    )
    SELECT array_agg(DISTINCT g.key) INTO v_keys FROM gone g;
    IF EXISTS (SELECT 1 FROM headgate.brought) THEN
        PERFORM headgate._forget_brought(v_keys);
    END IF;
    RETURN coalesce(v_keys, '{}');
END $$;

-- The first entries of newcomers with a share, of each queue in the order of its lines.   p_queues   NULL: of as many
-- queues as a claim may well serve
-- Reads: rechecks_tag, one step for each queue.
CREATE OR REPLACE FUNCTION headgate._noted(p_most integer, p_queues text[]) RETURNS TABLE (key text)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE q (queue, n) AS (
        SELECT min(r.queue), 1 FROM headgate.rechecks r WHERE r.tag > 0 AND p_queues IS NULL
        UNION ALL
        SELECT (SELECT min(r.queue) FROM headgate.rechecks r WHERE r.tag > 0 AND r.queue > q.queue), q.n + 1
        FROM q WHERE q.queue IS NOT NULL AND q.n < 64
    )
    SELECT e.key FROM (SELECT q.queue FROM q WHERE q.queue IS NOT NULL
                       UNION SELECT u.queue FROM unnest(p_queues) AS u (queue)) AS s
    CROSS JOIN LATERAL (
        SELECT r.key FROM headgate.rechecks r WHERE r.tag > 0 AND r.queue = s.queue
        ORDER BY r.queue, r.priority, r.tag LIMIT p_most) AS e
$$;

-- The first waiter of a key in the order of a claim from these queues.   `place` of its queue; no row without waiters
-- Reads: live_waiting, one step per queue.
CREATE OR REPLACE FUNCTION headgate._head(p_key text, p_queues text[])
RETURNS TABLE (place bigint, priority smallint, tag bigint, due bigint, seq bigint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE q (queue) AS (
        SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = p_key
        UNION ALL
        SELECT (SELECT min(j.queue) FROM headgate.live j
                WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue > q.queue)
        FROM q WHERE q.queue IS NOT NULL
    )
    SELECT h.place, h.priority, h.tag, h.due, h.seq FROM q CROSS JOIN LATERAL (
        SELECT CASE WHEN p_queues IS NULL THEN 0 ELSE array_position(p_queues, q.queue) END::bigint AS place,
               j.priority, j.tag, j.due, j.seq FROM headgate.live j
        WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue = q.queue
        ORDER BY j.priority, j.tag, j.due, j.seq LIMIT 1
    ) AS h WHERE q.queue IS NOT NULL
    ORDER BY h.place NULLS LAST, h.priority, h.tag, h.due, h.seq LIMIT 1
$$;
