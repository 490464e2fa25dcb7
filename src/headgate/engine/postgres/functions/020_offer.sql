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
                    AND w.key LIKE 'c%' AND w.task = ANY (p_known)),
           (SELECT sum(least(m.room, {offer_most})) FROM rooms m), (SELECT array_agg(m.key) FROM rooms m),
           (SELECT array_agg(m.queue) FROM rooms m), (SELECT array_agg(m.room) FROM rooms m)
    INTO seqs, keys, suspects, alone, v_room, v_keys, v_queues, v_rooms
    FROM (
        SELECT l.*, r.key, r.n FROM rooms r CROSS JOIN LATERAL (
            SELECT i.*, sum(i.units) OVER (ORDER BY i.priority, i.due, i.seq) AS total
            FROM (
                SELECT j.seq, j.units, j.suspicion, j.priority, j.due, j.task, j.use_keys, j.use_units, j.refusals
                FROM headgate.live j
                WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue
                ORDER BY j.priority, j.due, j.seq
                LIMIT least(r.room, {offer_most})
                FOR UPDATE SKIP LOCKED
            ) AS i
        ) AS l
        WHERE l.total <= r.room
        ORDER BY l.priority, l.due, l.seq
    ) AS w;
    cut := cardinality(seqs) >= {offer_most};
    IF cardinality(seqs) < v_room THEN
        INSERT INTO headgate.rechecks (key)
        SELECT DISTINCT r.key FROM unnest(v_keys, v_queues, v_rooms) AS r (key, queue, room)
        LEFT JOIN (
            SELECT j.waiting_on AS key, j.queue, count(*) AS given FROM headgate.live j WHERE j.seq = ANY (seqs)
            GROUP BY j.waiting_on, j.queue
        ) AS g ON g.key = r.key AND g.queue = r.queue
        WHERE coalesce(g.given, 0) < least(r.room, {offer_most}) AND r.key NOT LIKE 'r%'
          AND EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = r.key
                      AND j.queue = r.queue OFFSET coalesce(g.given, 0));
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

-- A rate key keeps one timer: when the first of its queues' heads will find its tokens.   p_keys   rate keys and others
-- The caller holds the keys.   Reads: live_waiting, live_offered.
CREATE OR REPLACE FUNCTION headgate._arm(p_keys text[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_key  text;
    v_at   bigint;
    v_done text[] := '{}';
BEGIN
    FOREACH v_key IN ARRAY p_keys LOOP
        CONTINUE WHEN v_key NOT LIKE 'r%' OR v_key = ANY (v_done);
        v_done := v_done || v_key;
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
            ORDER BY j.priority, j.due, j.seq LIMIT 1
        ) AS h
        WHERE q.queue IS NOT NULL;
        IF v_at IS NULL THEN
            DELETE FROM headgate.timers t WHERE t.key = v_key;
        ELSE
            INSERT INTO headgate.timers (key, at) VALUES (v_key, v_at)
            ON CONFLICT (key) DO UPDATE SET at = excluded.at WHERE timers.at <> excluded.at;
        END IF;
    END LOOP;
END $$;

-- Keys that have to be looked at, taken off the list: the caller looks at them in this very step.
-- p_most     how many places there are to fill. Some more keys are looked at, since not all of them have room; of many,
--            those whose first waiters come first in the order of a claim.
-- p_queues   the queues that are claimed from, in this order; NULL: all of them
-- Entries are read in the order in which they came. All that was noted of a key goes with it, a bounded number at a
-- time.
-- Locks: rechecks, SKIP LOCKED.   Reads: rechecks from its front, rechecks_key, live_waiting.
CREATE OR REPLACE FUNCTION headgate._checks(p_most integer, p_queues text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_more CONSTANT integer := 16;
    v_keys text[];
BEGIN
    SELECT array_agg(DISTINCT f.key) INTO v_keys FROM (
        SELECT r.key FROM headgate.rechecks r WHERE r.ctid > '(0,0)'::tid LIMIT p_most + 3 * c_more) AS f;
    IF cardinality(v_keys) > p_most + c_more THEN
        SELECT array_agg(o.key) INTO v_keys FROM (
            SELECT f.key FROM unnest(v_keys) AS f (key) LEFT JOIN LATERAL headgate._head(f.key, p_queues) AS h ON true
            ORDER BY h.place NULLS LAST, h.priority, h.due, h.seq LIMIT p_most + c_more
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
    RETURN coalesce(v_keys, '{}');
END $$;

-- The first waiter of a key in the order of a claim from these queues.   `place` of its queue; no row without waiters
-- Reads: live_waiting, one step per queue.
CREATE OR REPLACE FUNCTION headgate._head(p_key text, p_queues text[])
RETURNS TABLE (place bigint, priority smallint, due bigint, seq bigint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE q (queue) AS (
        SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = p_key
        UNION ALL
        SELECT (SELECT min(j.queue) FROM headgate.live j
                WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue > q.queue)
        FROM q WHERE q.queue IS NOT NULL
    )
    SELECT h.place, h.priority, h.due, h.seq FROM q CROSS JOIN LATERAL (
        SELECT CASE WHEN p_queues IS NULL THEN 0 ELSE array_position(p_queues, q.queue) END::bigint AS place,
               j.priority, j.due, j.seq FROM headgate.live j
        WHERE j.state = 'waiting' AND j.waiting_on = p_key AND j.queue = q.queue
        ORDER BY j.priority, j.due, j.seq LIMIT 1
    ) AS h WHERE q.queue IS NOT NULL
    ORDER BY h.place NULLS LAST, h.priority, h.due, h.seq LIMIT 1
$$;
