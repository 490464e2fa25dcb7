-- Rule 5: who of the waiters of touched keys is to be offered their room, in order, per queue. Writes nothing about
-- them.
-- p_touched   keys that may have gained room or lost an offer; the caller holds their rows
-- `seqs` are locked; `keys` are those that offer, one for each.
-- Locks: waiters (5), SKIP LOCKED.   Reads: live_waiting, live_offered: one step per queue, however many wait.
CREATE OR REPLACE FUNCTION headgate._next(p_touched text[], p_now bigint, OUT seqs bigint[], OUT keys text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys   text[];
    v_queues text[];
    v_rooms  bigint[];
    v_seqs   bigint[];
    v_lines  bigint[];         -- for each offered job the place of its key and queue
BEGIN
    seqs := '{}';
    keys := '{}';
    WITH RECURSIVE q (key, queue) AS (
        SELECT t.key, (SELECT min(j.queue) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = t.key)
        FROM (SELECT DISTINCT u.key FROM unnest(p_touched) AS u (key) WHERE u.key IS NOT NULL) AS t
        UNION ALL
        SELECT q.key, (SELECT min(j.queue) FROM headgate.live j
                       WHERE j.state = 'waiting' AND j.waiting_on = q.key AND j.queue > q.queue)
        FROM q WHERE q.queue IS NOT NULL
    )
    SELECT array_agg(q.key), array_agg(q.queue),
           array_agg(f.free - coalesce((SELECT sum(o.units)::bigint FROM headgate.live o
                                        WHERE o.offered_by = q.key AND o.queue = q.queue), 0))
    INTO v_keys, v_queues, v_rooms
    FROM q CROSS JOIN LATERAL headgate._free(ARRAY[q.key], p_now) AS f
    WHERE q.queue IS NOT NULL;

    IF v_keys IS NOT NULL THEN
        SELECT array_agg(w.seq), array_agg(r.key), array_agg(r.n) INTO v_seqs, keys, v_lines
        FROM unnest(v_keys, v_queues, v_rooms) WITH ORDINALITY AS r (key, queue, room, n)
        CROSS JOIN LATERAL (
            SELECT l.seq, sum(l.units) OVER (ORDER BY l.priority, l.due, l.seq) AS total FROM (
                SELECT j.seq, j.units, j.priority, j.due FROM headgate.live j
                WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue
                ORDER BY j.priority, j.due, j.seq
                LIMIT greatest(0, least(r.room, 1000))
                FOR UPDATE SKIP LOCKED
            ) AS l
        ) AS w
        WHERE r.room > 0 AND w.total <= r.room;
        seqs := coalesce(v_seqs, '{}');
        keys := coalesce(keys, '{}');
        -- A job that still waits although there is room is locked by another step, which may leave it as it is.
        INSERT INTO headgate.rechecks (key)
        SELECT DISTINCT r.key FROM unnest(v_keys, v_queues, v_rooms) WITH ORDINALITY AS r (key, queue, room, n)
        LEFT JOIN (SELECT g.n, count(*) AS given FROM unnest(v_lines) AS g (n) GROUP BY g.n) AS g ON g.n = r.n
        WHERE r.room > 0 AND r.key NOT LIKE 'r%' AND coalesce(g.given, 0) < least(r.room, 1000)
          AND EXISTS (SELECT 1 FROM headgate.live j
                      WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue
                      OFFSET coalesce(g.given, 0));
    END IF;
END $$;

-- Offer the room of touched keys. Returns how many became ready.
-- p_ttl   how long an offered job may keep its reservations unclaimed
CREATE OR REPLACE FUNCTION headgate._offer(p_touched text[], p_now bigint, p_ttl bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_seqs bigint[];
    v_by   text[];
    v_key  text;
    v_at   bigint;
BEGIN
    IF p_touched IS NULL OR cardinality(p_touched) = 0 THEN
        RETURN 0;
    END IF;
    SELECT n.seqs, n.keys INTO v_seqs, v_by FROM headgate._next(p_touched, p_now) AS n;
    PERFORM headgate._make_ready(v_seqs, v_by, p_now, p_ttl);

    -- A rate key keeps one timer: when the first of its queues' heads will find its tokens.
    FOR v_key IN SELECT DISTINCT u.key FROM unnest(p_touched) AS u (key) WHERE u.key LIKE 'r%' LOOP
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
    RETURN coalesce(cardinality(v_seqs), 0);
END $$;

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

-- Keys that have to be looked at, taken off the list: the caller looks at them in this very step.
-- p_most     how many places there are to fill. Some more keys are looked at, since not all of them have room; of many,
--            those whose first waiters come first in the order of a claim.
-- p_queues   the queues that are claimed from, in this order; NULL: all of them
-- Entries are read in the order in which they came. All that was noted of a key goes with it, a bounded number at a time.
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
                SELECT e.ctid FROM headgate.rechecks e WHERE e.key = k.key LIMIT 1000 FOR UPDATE SKIP LOCKED) AS r))
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
