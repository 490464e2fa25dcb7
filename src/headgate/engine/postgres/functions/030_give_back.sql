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
-- p_keys     of these slots, an entry for each; the caller holds them, and nobody is ready in p_queues
-- p_offers   whether there are offers of any key
-- `simple` is the common case: the keys' numbers are as declared, nobody was offered their room before, each has
--          waiters of one queue only, which the worker serves, and the next one needs this key alone, is no suspect and
--          of a task that the worker knows. Then `seqs` are to be started now, in order, each by its key of `keys`: the walker
--          would admit them, since their only key has room. Else nothing is done, and the room of p_keys is still to be
--          offered.
-- Locks: waiters (5), SKIP LOCKED.   Reads: holders, limits, overrides_name, live_waiting, live_offered.
CREATE OR REPLACE FUNCTION headgate._pass_on(p_keys text[], p_known text[], p_queues text[], p_most integer,
                                             p_offers boolean, OUT seqs bigint[], OUT keys text[], OUT simple boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_room bigint;
BEGIN
    WITH numbers AS MATERIALIZED (
        SELECT l.name, l.max FROM headgate.limits l
        WHERE l.name = ANY (ARRAY(SELECT headgate._name(u.key) FROM unnest(p_keys) AS u (key)))
          AND l.kind = 'concurrency' AND l.max <= 1000
          AND NOT EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.name = l.name)
    ), rooms AS MATERIALIZED (
        SELECT u.key, (
            SELECT greatest(0, l.max - (SELECT count(*) FROM headgate.holders h WHERE h.key = u.key))
            FROM numbers l WHERE l.name = headgate._name(u.key)
              AND (NOT p_offers OR NOT EXISTS (SELECT 1 FROM headgate.live o WHERE o.offered_by = u.key))) AS room
        FROM unnest(p_keys) AS u (key) GROUP BY u.key
    )
    SELECT coalesce(array_agg(w.seq), '{}'), array_agg(w.key),
           coalesce(bool_and(w.simple), true) AND count(*) <= p_most
               AND (SELECT bool_and(r.room IS NOT NULL) FROM rooms r), (SELECT sum(r.room) FROM rooms r)
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
        -- Who still waits although there is room was locked by somebody else.
        INSERT INTO headgate.rechecks (key)
        SELECT DISTINCT u.key FROM unnest(p_keys) AS u (key)
        WHERE EXISTS (SELECT 1 FROM headgate.live j
                      WHERE j.state = 'waiting' AND j.waiting_on = u.key AND j.seq <> ALL (_pass_on.seqs))
          AND (SELECT l.max FROM headgate.limits l WHERE l.name = headgate._name(u.key))
              > (SELECT count(*) FROM headgate.holders h WHERE h.key = u.key)
                + coalesce(cardinality(array_positions(_pass_on.keys, u.key)), 0);
    END IF;
END $$;
