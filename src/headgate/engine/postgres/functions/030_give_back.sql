-- The one release (rule 10): let go of all that jobs hold, were promised, or stand in line for. Called before their
-- states change; returns the keys to offer.   The caller holds the keys' rows.
-- Reads: holders_job, jobs by primary key.
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
        UNION SELECT j.offered_by FROM headgate.jobs j WHERE j.seq = ANY (p_seqs) AND j.offered_by IS NOT NULL
        UNION SELECT j.waiting_on FROM headgate.jobs j WHERE j.seq = ANY (p_seqs) AND j.waiting_on LIKE 'r%'
    ) AS k;
    RETURN coalesce(v_keys, '{}');
END $$;

-- Slots that ended jobs held go straight to the next in line: what _give_back and _next do, for the common case in one statement.
-- p_seqs   the jobs; they held concurrency keys only, and nobody is ready in p_queues
-- `simple` is the common case: each key has waiters of one queue, which the worker serves, and who is next needs this key
--          alone and is of a task that the worker knows. Then `seqs` are to be started now, in order, each by its key of
--          `keys`: the walker would admit them, since their only key has room. Else the room of `touched` is to be offered.
-- Locks: waiters (5), SKIP LOCKED.   Reads: holders, jobs_waiting, jobs_offered.
CREATE OR REPLACE FUNCTION headgate._pass_on(p_seqs bigint[], p_known text[], p_queues text[], p_most integer,
                                             OUT seqs bigint[], OUT keys text[], OUT touched text[], OUT simple boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_short text[];
BEGIN
    WITH gone AS (
        DELETE FROM headgate.holders h WHERE h.job = ANY (p_seqs) RETURNING h.key
    ), freed AS (
        SELECT g.key, count(*) AS count FROM gone g GROUP BY g.key
    ), rooms AS MATERIALIZED (
        SELECT f.key, q.first AS queue,
               coalesce(q.first = q.last AND r.number <= 1000 AND (p_queues IS NULL OR p_queues = ARRAY[q.first]),
                        q.first IS NULL) AS simple,
               CASE WHEN q.first IS NULL THEN 0 ELSE
                   r.number - (SELECT count(*) FROM headgate.holders h WHERE h.key = f.key) + f.count
                   - (SELECT coalesce(sum(o.units), 0)::bigint FROM headgate.jobs o
                      WHERE o.offered_by = f.key AND o.queue = q.first) END AS room
        FROM freed f
        CROSS JOIN LATERAL (
            SELECT (SELECT min(j.queue) FROM headgate.jobs j WHERE j.state = 'waiting' AND j.waiting_on = f.key) AS first,
                   (SELECT max(j.queue) FROM headgate.jobs j WHERE j.state = 'waiting' AND j.waiting_on = f.key) AS last
        ) AS q
        CROSS JOIN LATERAL headgate._rules(ARRAY[f.key]) AS r
    ), found AS MATERIALIZED (
        SELECT r.key, w.seq, w.priority, w.due, coalesce(w.use_keys = ARRAY[r.key] AND w.task = ANY (p_known), false) AS simple
        FROM rooms r
        CROSS JOIN LATERAL (
            SELECT j.seq, j.priority, j.due, j.use_keys, j.task FROM headgate.jobs j
            WHERE j.state = 'waiting' AND j.waiting_on = r.key AND j.queue = r.queue
            ORDER BY j.priority, j.due, j.seq
            LIMIT greatest(0, r.room)
            FOR UPDATE SKIP LOCKED
        ) AS w
        WHERE r.simple AND r.room > 0
    )
    SELECT array_agg(f.seq), array_agg(f.key), coalesce(bool_and(f.simple), true) AND count(*) <= p_most
           AND (SELECT bool_and(r.simple) FROM rooms r) AND NOT EXISTS (SELECT 1 FROM headgate.paused),
           ARRAY(SELECT r.key FROM rooms r),
           -- Who still waits although there is room was locked by somebody else.
           ARRAY(SELECT r.key FROM rooms r WHERE r.room > (SELECT count(*) FROM found f WHERE f.key = r.key)
                 AND EXISTS (SELECT 1 FROM headgate.jobs j WHERE j.state = 'waiting' AND j.waiting_on = r.key
                             AND j.seq NOT IN (SELECT f.seq FROM found f WHERE f.key = r.key)))
    INTO seqs, keys, simple, touched, v_short
    FROM (SELECT * FROM found ORDER BY priority, due, seq) AS f;
    seqs := coalesce(seqs, '{}');
    IF simple AND cardinality(v_short) > 0 THEN
        INSERT INTO headgate.rechecks (key) SELECT s.key FROM unnest(v_short) AS s (key);
    END IF;
END $$;
