-- The one release (rule 10): let go of all that jobs hold, were promised, or stand in line for. Called before their
-- states change; returns the keys to offer.   The caller holds the keys' rows.
-- Reads: holders_job, live by primary key.
CREATE OR REPLACE FUNCTION headgate._give_back(p_seqs bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM headgate.holders h WHERE h.job = ANY (p_seqs) RETURNING h.key
    )
    SELECT array_agg(k.key) INTO v_keys FROM (
        SELECT g.key FROM gone g
        UNION SELECT j.offered_by FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.offered_by IS NOT NULL
        UNION SELECT j.waiting_on FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.waiting_on LIKE 'r%'
    ) AS k;
    RETURN coalesce(v_keys, '{}');
END $$;

-- Slots that were just given back go straight to the next in line: what _next does, for the common case by few and
-- simple statements, since a step that passes on a handful of slots costs little else.
-- p_keys     of these slots, an entry for each; the caller holds them
-- p_offers   whether there are offers of any key
-- `simple` is the common case: the keys' numbers are as declared, all waiters and all offered jobs of a key are of one
--          queue, which the worker serves, and the next ones need this key alone, are no suspects and of tasks that the
--          worker knows. Then `seqs` may be started now, in order, each by its key of `keys`, where nothing that is ready
--          comes before: the walker would admit them, since their only key has room. Else nothing is done, and the room
--          of p_keys is still to be offered.
-- Locks: waiters (5), SKIP LOCKED.   Reads: holders, limits, overrides_name, live_waiting, live_offered.
CREATE OR REPLACE FUNCTION headgate._pass_on(p_keys text[], p_known text[], p_queues text[], p_offers boolean,
                                             OUT seqs bigint[], OUT keys text[], OUT simple boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_room bigint;
BEGIN
    WITH numbers AS MATERIALIZED (
        SELECT l.name, l.max FROM headgate.limits l
        WHERE l.name = ANY (ARRAY(SELECT headgate._name(u.key) FROM unnest(p_keys) AS u (key)))
          AND l.kind = 'concurrency' AND l.max <= 1000
          AND NOT EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.name = l.name)
    ), offers AS MATERIALIZED (
        SELECT o.offered_by AS key, sum(o.units)::bigint AS units, min(o.queue) AS first, max(o.queue) AS last
        FROM headgate.live o WHERE p_offers AND o.offered_by = ANY (p_keys) GROUP BY o.offered_by
    ), rooms AS MATERIALIZED (
        SELECT u.key, (
            SELECT greatest(0, l.max - coalesce(o.units, 0)
                               - (SELECT count(*) FROM headgate.holders h WHERE h.key = u.key))
            FROM numbers l WHERE l.name = headgate._name(u.key)
              AND (o.key IS NULL OR o.first = o.last
                   AND NOT EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = u.key
                                   AND j.queue < o.first)
                   AND NOT EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = u.key
                                   AND j.queue > o.first))) AS room
        FROM (SELECT DISTINCT k.key FROM unnest(p_keys) AS k (key) WHERE k.key IS NOT NULL) AS u
        LEFT JOIN offers o ON o.key = u.key
    )
    SELECT coalesce(array_agg(w.seq), '{}'), array_agg(w.key),
           coalesce(bool_and(w.simple), true) AND (SELECT bool_and(r.room IS NOT NULL) FROM rooms r),
           (SELECT sum(r.room) FROM rooms r)
    INTO seqs, keys, simple, v_room
    FROM (
        SELECT x.seq, r.key, x.use_keys = ARRAY[r.key] AND x.task = ANY (p_known) AND x.suspicion = 0
               AND (p_queues IS NULL OR p_queues = ARRAY[x.queue]) AND NOT EXISTS (
                   SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = r.key
                   AND j.queue > x.queue) AS simple
        FROM rooms r CROSS JOIN LATERAL (
            SELECT j.seq, j.priority, j.due, j.queue, j.task, j.use_keys, j.suspicion FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = r.key
            ORDER BY j.queue, j.priority, j.due, j.seq
            LIMIT r.room
            FOR UPDATE SKIP LOCKED
        ) AS x
        WHERE r.room > 0 ORDER BY x.priority, x.due, x.seq
    ) AS w;
    IF simple AND cardinality(seqs) < v_room THEN
        -- A job that still waits although there is room is locked by another step.
        INSERT INTO headgate.rechecks (key)
        SELECT DISTINCT u.key FROM unnest(p_keys) AS u (key)
        WHERE EXISTS (SELECT 1 FROM headgate.live j
                      WHERE j.state = 'waiting' AND j.waiting_on = u.key AND j.seq <> ALL (_pass_on.seqs))
          AND (SELECT l.max FROM headgate.limits l WHERE l.name = headgate._name(u.key))
              > (SELECT count(*) FROM headgate.holders h WHERE h.key = u.key)
                + (SELECT coalesce(sum(o.units), 0) FROM headgate.live o WHERE o.offered_by = u.key)
                + coalesce(cardinality(array_positions(_pass_on.keys, u.key)), 0);
    END IF;
END $$;

-- What is started next of ready jobs and of those that slots are passed on to, in the order of a claim.
-- p_cands    ready jobs that need nothing, or one key alone, whose room they were promised; the caller holds them and
--            their keys
-- p_passed   the jobs of p_keys that _pass_on found
-- `simple` is the common case: the keys' numbers are as declared and have room for all of p_cands, and these hold
--          nothing. Then `seqs` are to be started now, each by its key of `keys`, the others of p_passed were offered
--          their room, and `left` says how many of p_cands stay ready. Else nothing is done.
-- Reads: live by primary key, holders, limits, overrides_name.
CREATE OR REPLACE FUNCTION headgate._merge(p_cands bigint[], p_passed bigint[], p_keys text[], p_most integer,
                                           OUT seqs bigint[], OUT keys text[], OUT simple boolean, OUT "left" integer,
                                           OUT offered integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_rest bigint[];
    v_by   text[];
BEGIN
    WITH all_of AS MATERIALIZED (
        SELECT j.seq, j.priority, j.due, j.offered_by AS key, true AS ready FROM headgate.live j
        WHERE j.seq = ANY (p_cands)
        UNION ALL
        SELECT j.seq, j.priority, j.due, p.key, false FROM unnest(p_passed, p_keys) AS p (seq, key)
        JOIN headgate.live j ON j.seq = p.seq
    ), placed AS MATERIALIZED (
        SELECT a.*, row_number() OVER (ORDER BY a.priority, a.due, a.seq) AS n FROM all_of a
    ), wanted AS MATERIALIZED (
        SELECT a.key, headgate._name(a.key) AS name, count(*) AS units FROM all_of a
        WHERE a.ready AND a.key IS NOT NULL GROUP BY a.key
    ), numbers AS MATERIALIZED (
        SELECT l.name, l.max FROM headgate.limits l WHERE l.name = ANY (ARRAY(SELECT w.name FROM wanted w))
          AND l.kind = 'concurrency' AND l.max <= 1000
          AND NOT EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.name = l.name)
    )
    SELECT array_agg(p.seq ORDER BY p.n) FILTER (WHERE p.n <= p_most),
           array_agg(p.key ORDER BY p.n) FILTER (WHERE p.n <= p_most),
           array_agg(p.seq) FILTER (WHERE p.n > p_most AND NOT p.ready),
           array_agg(p.key) FILTER (WHERE p.n > p_most AND NOT p.ready),
           count(*) FILTER (WHERE p.n > p_most AND p.ready),
           (SELECT coalesce(bool_and(l.max IS NOT NULL AND l.max >= w.units
                                     + (SELECT count(*) FROM headgate.holders h WHERE h.key = w.key)), true)
            FROM wanted w LEFT JOIN numbers l ON l.name = w.name)
           AND NOT EXISTS (SELECT 1 FROM headgate.holders h WHERE h.job = ANY (p_cands))
    INTO seqs, keys, v_rest, v_by, "left", simple FROM placed p;
    offered := 0;
    IF simple AND cardinality(v_rest) > 0 THEN
        offered := cardinality(v_rest);
        UPDATE headgate.live j SET state = 'ready', waiting_on = NULL, offered_by = c.key
        FROM unnest(v_rest, v_by) AS c (seq, key) WHERE j.seq = c.seq;
    END IF;
END $$;
