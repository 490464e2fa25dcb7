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

-- Slots that ended jobs held go straight to the next in line: what _give_back and _next do, for the common case by few
-- and simple statements, since a step that passes on a handful of slots costs little else.
-- p_seqs   the jobs; nobody is ready in p_queues          p_keys   what they hold, an entry for each slot
-- `simple` is the common case: the keys' numbers are as declared, each has waiters of one queue only, which the worker
--          serves, and who is next needs this key alone and is of a task that the worker knows. Then `seqs` are to be
--          started now, in order, each by its key of `keys`: the walker would admit them, since their only key has
--          room. Else nothing but the giving back is done, and the room of p_keys is still to be offered.
-- Locks: waiters (5), SKIP LOCKED.   Reads: holders, limits, overrides_name, live_waiting, live_offered.
CREATE OR REPLACE FUNCTION headgate._pass_on(p_seqs bigint[], p_keys text[], p_known text[], p_queues text[],
    p_most integer,
                                             OUT seqs bigint[], OUT keys text[], OUT simple boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_short boolean;
BEGIN
    DELETE FROM headgate.holders h WHERE h.job = ANY (p_seqs);
    SELECT array_agg(f.seq) FILTER (WHERE f.seq IS NOT NULL), array_agg(f.key) FILTER (WHERE f.seq IS NOT NULL),
           coalesce(bool_and(f.simple), false) AND count(f.seq) <= p_most, bool_or(f.short)
    INTO seqs, keys, simple, v_short
    FROM (
        SELECT k.key, w.seq,
               k.room IS NOT NULL AND (w.seq IS NULL OR w.use_keys = ARRAY[k.key] AND w.task = ANY (p_known)
                   AND (p_queues IS NULL OR p_queues = ARRAY[w.queue]) AND w.queue = (
                       SELECT max(j.queue) FROM headgate.live j WHERE j.state = 'waiting'
                           AND j.waiting_on = k.key)) AS simple,
               count(w.seq) OVER (PARTITION BY k.key) < k.room AS short
        FROM (
            SELECT u.key, (
                SELECT greatest(0, l.max - (SELECT count(*) FROM headgate.holders h WHERE h.key = u.key))
                FROM headgate.limits l
                WHERE l.name = split_part(headgate._text(u.key), '=', 1) AND l.kind = 'concurrency' AND l.max <= 1000
                  AND NOT EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.name = l.name)) AS room
            FROM unnest(p_keys) AS u (key) GROUP BY u.key ORDER BY u.key
        ) AS k
        LEFT JOIN LATERAL (
            SELECT j.seq, j.priority, j.due, j.queue, j.task, j.use_keys FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = k.key
            ORDER BY j.queue, j.priority, j.due, j.seq
            LIMIT coalesce(k.room, 0)
            FOR UPDATE SKIP LOCKED
        ) AS w ON true
        ORDER BY w.priority, w.due, w.seq
    ) AS f
    WHERE NOT EXISTS (SELECT 1 FROM headgate.live o WHERE o.offered_by IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM headgate.paused);
    seqs := coalesce(seqs, '{}');
    IF simple AND v_short THEN
        -- Who still waits although there is room was locked by somebody else.
        INSERT INTO headgate.rechecks (key)
        SELECT DISTINCT u.key FROM unnest(p_keys) AS u (key)
        WHERE (SELECT l.max FROM headgate.limits l WHERE l.name = split_part(headgate._text(u.key), '=', 1))
              > (SELECT count(*) FROM headgate.holders h WHERE h.key = u.key) + cardinality(array_positions(keys,
                  u.key))
          AND EXISTS (SELECT 1 FROM headgate.live j
                      WHERE j.state = 'waiting' AND j.waiting_on = u.key AND j.seq <> ALL (_pass_on.seqs));
    END IF;
END $$;
