-- Rule 5: the room of touched keys is offered to their waiters, in order, per queue. Returns how many became ready.
-- p_touched   keys that may have gained room or lost an offer; the caller holds their rows
-- p_ttl       how long an offered job may keep its reservations unclaimed
-- Locks: waiters (5), SKIP LOCKED.   Reads: jobs_waiting, jobs_offered: one step per queue, however many wait.
CREATE OR REPLACE FUNCTION headgate._offer(p_touched text[], p_now bigint, p_ttl bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys   text[];
    v_queues text[];
    v_rooms  bigint[];
    v_seqs   bigint[];
    v_key    text;
    v_at     bigint;
BEGIN
    IF p_touched IS NULL OR cardinality(p_touched) = 0 THEN
        RETURN 0;
    END IF;
    WITH RECURSIVE q (key, queue) AS (
        SELECT t.key, (SELECT min(j.queue) FROM headgate.jobs j WHERE j.state = 'waiting' AND j.waiting_on = t.key)
        FROM (SELECT DISTINCT u.key FROM unnest(p_touched) AS u (key) WHERE u.key IS NOT NULL) AS t
        UNION ALL
        SELECT q.key, (SELECT min(j.queue) FROM headgate.jobs j
                       WHERE j.state = 'waiting' AND j.waiting_on = q.key AND j.queue > q.queue)
        FROM q WHERE q.queue IS NOT NULL
    )
    SELECT array_agg(q.key), array_agg(q.queue),
           array_agg(f.free - coalesce((SELECT sum(o.units)::bigint FROM headgate.jobs o
                                        WHERE o.offered_by = q.key AND o.queue = q.queue), 0))
    INTO v_keys, v_queues, v_rooms
    FROM q CROSS JOIN LATERAL headgate._free(ARRAY[q.key], p_now) AS f
    WHERE q.queue IS NOT NULL;

    IF v_keys IS NOT NULL THEN
        WITH chosen AS MATERIALIZED (
            SELECT w.seq, r.key
            FROM unnest(v_keys, v_queues, v_rooms) AS r (key, queue, room)
            CROSS JOIN LATERAL (
                SELECT l.seq, sum(l.units) OVER (ORDER BY l.priority, l.due, l.seq) AS total FROM (
                    SELECT j.seq, j.units, j.priority, j.due FROM headgate.jobs j
                    WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue
                    ORDER BY j.priority, j.due, j.seq
                    LIMIT greatest(0, least(r.room, 1000))
                    FOR UPDATE SKIP LOCKED
                ) AS l
            ) AS w
            WHERE r.room > 0 AND w.total <= r.room
        ), done AS (
            UPDATE headgate.jobs j SET state = 'ready', waiting_on = NULL, offered_by = c.key
            FROM chosen c WHERE j.seq = c.seq
            RETURNING j.seq
        )
        SELECT array_agg(d.seq) INTO v_seqs FROM done d;
        UPDATE headgate.holders h SET expires_at = p_now + p_ttl WHERE h.job = ANY (v_seqs);
        -- Who still waits although there is room was locked by somebody else.
        INSERT INTO headgate.rechecks (key)
        SELECT DISTINCT r.key FROM unnest(v_keys, v_queues, v_rooms) AS r (key, queue, room)
        WHERE r.room > 0 AND r.key NOT LIKE 'r%'
          AND (SELECT count(*) FROM unnest(v_seqs) AS s (seq) JOIN headgate.jobs j ON j.seq = s.seq
               WHERE j.offered_by = r.key AND j.queue = r.queue) < least(r.room, 1000)
          AND EXISTS (SELECT 1 FROM headgate.jobs j
                      WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue);
    END IF;

    -- A rate key keeps one timer: when the first of its queues' heads will find its tokens.
    FOR v_key IN SELECT DISTINCT u.key FROM unnest(p_touched) AS u (key) WHERE u.key LIKE 'r%' LOOP
        WITH RECURSIVE q (queue) AS (
            SELECT min(j.queue) FROM headgate.jobs j WHERE j.state = 'waiting' AND j.waiting_on = v_key
            UNION ALL
            SELECT (SELECT min(j.queue) FROM headgate.jobs j
                    WHERE j.state = 'waiting' AND j.waiting_on = v_key AND j.queue > q.queue)
            FROM q WHERE q.queue IS NOT NULL
        )
        SELECT min(headgate._when(v_key, h.units + coalesce((
                   SELECT sum(o.units)::bigint FROM headgate.jobs o
                   WHERE o.offered_by = v_key AND o.queue = q.queue), 0), p_now))
        INTO v_at
        FROM q CROSS JOIN LATERAL (
            SELECT j.units FROM headgate.jobs j
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
