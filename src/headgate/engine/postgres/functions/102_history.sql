-- The small history of what workers did: rows of a minute, a queue and a task. It decides nothing.

-- Add to it.   p_done   JSON array of at, queue, task and the numbers
-- A minute tells so many pairs of queue and task apart; the others count together, with empty names. (Two heartbeats at
-- the same moment may each find room for a pair.)
-- Locks: rows of history, in their order; the last that its caller waits for.   Reads: history by primary key.
CREATE OR REPLACE FUNCTION headgate._add_done(p_done json) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH said AS MATERIALIZED (
        SELECT d.at - d.at % {history_minute} AS at, d.queue, d.task, min(d.n) AS n, sum(d.started)::bigint AS started,
               sum(d.succeeded)::bigint AS succeeded, sum(d.failed)::bigint AS failed, sum(d.retried)::bigint AS retried,
               sum(d.cancelled)::bigint AS cancelled, sum(d.waited)::bigint AS waited, max(d.longest) AS longest,
               sum(d.ran)::bigint AS ran
        FROM ROWS FROM (json_to_recordset(p_done) AS (at bigint, queue text, task text, started bigint, succeeded bigint,
            failed bigint, retried bigint, cancelled bigint, waited bigint, longest bigint, ran bigint))
            WITH ORDINALITY AS d (at, queue, task, started, succeeded, failed, retried, cancelled, waited, longest, ran, n)
        GROUP BY 1, 2, 3
    ), minutes AS MATERIALIZED (
        SELECT m.at, (SELECT count(*) FROM headgate.history h WHERE h.at = m.at) AS there
        FROM (SELECT DISTINCT s.at FROM said s) AS m
    ), placed AS (
        SELECT s.*, h.at IS NOT NULL
                    OR m.there + count(*) FILTER (WHERE h.at IS NULL) OVER (PARTITION BY s.at ORDER BY s.n)
                       <= {history_most} AS own
        FROM said s JOIN minutes m ON m.at = s.at
        LEFT JOIN headgate.history h ON h.at = s.at AND h.queue = s.queue AND h.task = s.task
    )
    INSERT INTO headgate.history AS h (at, queue, task, started, succeeded, failed, retried, cancelled, waited, longest,
                                       ran)
    SELECT p.at, p.queue, p.task, sum(p.started), sum(p.succeeded), sum(p.failed), sum(p.retried), sum(p.cancelled),
           sum(p.waited), max(p.longest), sum(p.ran)
    FROM (SELECT o.at, (CASE WHEN o.own THEN o.queue ELSE '' END) COLLATE "C" AS queue,
                 (CASE WHEN o.own THEN o.task ELSE '' END) COLLATE "C" AS task, o.started, o.succeeded, o.failed,
                 o.retried, o.cancelled, o.waited, o.longest, o.ran FROM placed o) AS p
    GROUP BY p.at, p.queue, p.task ORDER BY p.at, p.queue, p.task
    ON CONFLICT (at, queue, task) DO UPDATE
    SET started = h.started + excluded.started, succeeded = h.succeeded + excluded.succeeded,
        failed = h.failed + excluded.failed, retried = h.retried + excluded.retried,
        cancelled = h.cancelled + excluded.cancelled, waited = h.waited + excluded.waited,
        longest = greatest(h.longest, excluded.longest), ran = h.ran + excluded.ran;
END $$;

-- Forget minutes of more than a day ago. Returns whether there were as many as were looked at.
-- Locks: old rows, SKIP LOCKED.   Reads: history by primary key.
CREATE OR REPLACE FUNCTION headgate._forget_history(p_now bigint, p_most integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_old tid[] := ARRAY(SELECT h.ctid FROM headgate.history h WHERE h.at <= p_now - {history_kept} ORDER BY h.at
                         LIMIT p_most FOR UPDATE SKIP LOCKED);
BEGIN
    DELETE FROM headgate.history h WHERE h.ctid = ANY (v_old);
    RETURN cardinality(v_old) = p_most;
END $$;
