-- Keys of a limit, page by page: what a page costs is what it shows. Plain statements would be planned by what the tables
-- held when they were last analyzed; these read their index in order, and one step of each other index per key.

-- Those that are held or waited for, in the order of their idents.   p_before   only if computed before this time, or never
-- Reads: keys_name, holders and computed by primary key, live_waiting.
CREATE OR REPLACE FUNCTION headgate._keys_of_limit(p_name text, p_before bigint, p_after text, p_most integer)
RETURNS TABLE (key text, held bigint, waiting bigint)
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_incremental_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
    SELECT k.key, (SELECT coalesce(sum(h.units), 0)::bigint FROM headgate.holders h WHERE h.key = k.key),
           (SELECT count(*) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key)
    FROM headgate.keys k LEFT JOIN headgate.computed c ON c.key = k.key
    WHERE headgate._name(k.key) = p_name AND k.key > p_after AND (p_before IS NULL OR coalesce(c.at, 0) < p_before)
      AND ((SELECT 1 FROM headgate.holders h WHERE h.key = k.key LIMIT 1) IS NOT NULL
           OR (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key LIMIT 1) IS NOT NULL)
    ORDER BY headgate._name(k.key), k.key LIMIT p_most
$$;

-- Those that are held, waited for, computed, brought, throttled or overridden, in the order of a listing.   p_most   NULL: all
-- Reads: keys_text, computed_text, brought_text, gates, overrides_name, holders, live_waiting.
CREATE OR REPLACE FUNCTION headgate._listed_keys(p_name text, p_text text, p_tenant text, p_most integer)
RETURNS TABLE (key text, held bigint, waiting bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_keys text[] := ARRAY(
        SELECT k.key FROM headgate.keys k
        WHERE headgate._name(k.key) = p_name AND (headgate._text(k.key), headgate._tenant(k.key)) > (p_text, p_tenant)
          AND ((SELECT 1 FROM headgate.holders h WHERE h.key = k.key LIMIT 1) IS NOT NULL
               OR (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key LIMIT 1) IS NOT NULL)
        ORDER BY headgate._name(k.key), headgate._text(k.key), headgate._tenant(k.key) LIMIT p_most);
BEGIN
    v_keys := v_keys || ARRAY(
        SELECT c.key FROM headgate.computed c
        WHERE headgate._name(c.key) = p_name AND (headgate._text(c.key), headgate._tenant(c.key)) > (p_text, p_tenant)
        ORDER BY headgate._name(c.key), headgate._text(c.key), headgate._tenant(c.key) LIMIT p_most);
    v_keys := v_keys || ARRAY(
        SELECT b.key FROM headgate.brought b
        WHERE headgate._name(b.key) = p_name AND (headgate._text(b.key), headgate._tenant(b.key)) > (p_text, p_tenant)
        ORDER BY headgate._name(b.key), headgate._text(b.key), headgate._tenant(b.key) LIMIT p_most);
    v_keys := v_keys || ARRAY(
        SELECT g.key FROM headgate.gates g
        WHERE headgate._name(g.key) = p_name AND (headgate._text(g.key), headgate._tenant(g.key)) > (p_text, p_tenant));
    v_keys := v_keys || ARRAY(
        SELECT i.key FROM headgate.overrides o LEFT JOIN headgate.limits l ON l.name = o.name
        CROSS JOIN LATERAL (
            SELECT CASE WHEN l.kind = 'rate' THEN 'r' ELSE 'c' END || length(coalesce(o.tenant, '')) || ':'
                   || coalesce(o.tenant, '') || o.name || coalesce('=' || o.value, '') AS key) AS i
        WHERE o.name = p_name AND (o.value IS NOT NULL OR o.tenant IS NOT NULL)
          AND (headgate._text(i.key), headgate._tenant(i.key)) > (p_text, p_tenant));
    RETURN QUERY
    SELECT u.key, (SELECT coalesce(sum(h.units), 0)::bigint FROM headgate.holders h WHERE h.key = u.key),
           (SELECT count(*) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = u.key)
    FROM (SELECT DISTINCT d.key FROM unnest(v_keys) AS d (key)) AS u
    ORDER BY headgate._text(u.key) COLLATE "C", headgate._tenant(u.key) COLLATE "C" LIMIT p_most;
END $$;

-- What all keys of a limit hold and have waiting together.   p_most   stop where so many wait or are held: the numbers are
-- lower bounds then, and not `exact`; NULL: count all
-- Where enough waits already, only the first keys are asked what they hold.
-- Reads: live_waiting_name, keys_name, holders.
CREATE OR REPLACE FUNCTION headgate._limit_totals(p_name text, p_most integer,
                                                  OUT held bigint, OUT waiting bigint, OUT exact boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    c_first CONSTANT integer := 100;
    v_whole boolean;
    v_keys  bigint;            -- how many are asked: idle keys have rows, too, for a while
BEGIN
    SELECT count(*) INTO waiting FROM (
        SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND headgate._name(j.waiting_on) = p_name AND octet_length(j.waiting_on) > 0
        LIMIT p_most) AS w;
    exact := coalesce(waiting < p_most, true);
    v_keys := CASE WHEN exact THEN 4 * p_most ELSE c_first END;
    SELECT coalesce(sum(h.units), 0)::bigint, count(*) < p_most INTO held, v_whole FROM (
        SELECT h.units FROM (SELECT k.key FROM headgate.keys k WHERE headgate._name(k.key) = p_name LIMIT v_keys) AS a
        JOIN headgate.holders h ON h.key = a.key LIMIT p_most) AS h;
    IF exact AND p_most IS NOT NULL THEN
        exact := v_whole AND (
            SELECT 1 FROM headgate.keys k WHERE headgate._name(k.key) = p_name OFFSET v_keys LIMIT 1) IS NULL;
    END IF;
END $$;

-- The jobs that wait on a key, or on any key of a limit, newest first.   p_text   the text of the key, or the limit's name
-- p_queue … p_unique   NULL: whatever it is   p_error   a text in the first line of its error   p_before   only those that came before this one   p_most   NULL: all
-- A newcomer whose key is yet to be looked at does not wait for it.
-- Reads: live_waiting_name backwards, or, of the one key of each tenant, live_waiting.
CREATE OR REPLACE FUNCTION headgate._waiting_for(p_text text, p_queue text, p_task text, p_tenant text, p_ids text[],
                                                 p_unique text, p_error text, p_before bigint, p_most bigint)
RETURNS TABLE (seq bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_seqs bigint[] := CASE WHEN p_ids IS NOT NULL THEN
        ARRAY(SELECT o.seq FROM headgate.jobs o WHERE o.id = ANY (p_ids)) END;
BEGIN
    IF strpos(p_text, '=') = 0 THEN
        RETURN QUERY
        SELECT j.seq FROM headgate.live j
        WHERE j.state = 'waiting' AND headgate._name(j.waiting_on) = p_text AND octet_length(j.waiting_on) > 0
          AND j.seq < p_before
          AND (p_queue IS NULL OR j.queue = p_queue) AND (p_task IS NULL OR j.task = p_task)
          AND (p_tenant IS NULL OR j.tenant = p_tenant) AND (v_seqs IS NULL OR j.seq = ANY (v_seqs))
          AND (p_unique IS NULL OR j.unique_key = p_unique)
          AND (p_error IS NULL OR headgate._says(j.error, p_error))
          AND NOT (j.unseen AND (SELECT 1 FROM headgate.rechecks c WHERE c.key = j.waiting_on LIMIT 1) IS NOT NULL)
        ORDER BY headgate._name(j.waiting_on) DESC, j.seq DESC LIMIT p_most;
    ELSE
        RETURN QUERY
        SELECT j.seq FROM headgate.keys k CROSS JOIN LATERAL (
            SELECT l.* FROM headgate.live l WHERE l.state = 'waiting' AND l.waiting_on = k.key OFFSET 0) AS j
        WHERE headgate._name(k.key) = split_part(p_text, '=', 1) AND headgate._text(k.key) = p_text AND j.seq < p_before
          AND (p_queue IS NULL OR j.queue = p_queue) AND (p_task IS NULL OR j.task = p_task)
          AND (p_tenant IS NULL OR j.tenant = p_tenant) AND (v_seqs IS NULL OR j.seq = ANY (v_seqs))
          AND (p_unique IS NULL OR j.unique_key = p_unique)
          AND (p_error IS NULL OR headgate._says(j.error, p_error))
          AND NOT (j.unseen AND (SELECT 1 FROM headgate.rechecks c WHERE c.key = j.waiting_on LIMIT 1) IS NOT NULL)
        ORDER BY j.seq DESC LIMIT p_most;
    END IF;
END $$;

-- Whether the first line of an error has a text in it.
CREATE OR REPLACE FUNCTION headgate._says(p_error text, p_text text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT strpos(split_part(p_error, E'\n', 1), p_text) > 0
$$;

-- Since when the first ready job of each queue is due. Each line is asked for its first job of each priority. A newcomer
-- counts if it is the first of its line; should more than a thousand keys have to be looked at (no worker does), those
-- that were noted first.
-- Reads: live_ready, live_aside, live_suspects, live_waiting: one step for each priority of each line.
CREATE OR REPLACE FUNCTION headgate._oldest() RETURNS TABLE (queue text, due bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_keys CONSTANT integer := 1000;
BEGIN
    RETURN QUERY
    WITH RECURSIVE plain (queue, priority, due) AS (
        (SELECT j.queue, j.priority, j.due FROM headgate.live j
         WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0
         ORDER BY j.queue, j.priority, j.tag, j.due, j.seq LIMIT 1)
        UNION ALL
        SELECT n.* FROM plain p CROSS JOIN LATERAL (
            SELECT j.queue, j.priority, j.due FROM headgate.live j
            WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0 AND (j.queue, j.priority) > (p.queue, p.priority)
            ORDER BY j.queue, j.priority, j.tag, j.due, j.seq LIMIT 1) AS n
    ), suspects (queue, level, priority, due) AS (
        (SELECT j.queue, -least(j.suspicion, 3), j.priority, j.due FROM headgate.live j
         WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0
         ORDER BY j.queue, least(j.suspicion, 3) DESC, j.priority, j.tag, j.due, j.seq LIMIT 1)
        UNION ALL
        SELECT n.* FROM suspects s CROSS JOIN LATERAL (
            SELECT j.queue, -least(j.suspicion, 3), j.priority, j.due FROM headgate.live j
            WHERE j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0 AND j.queue >= s.queue
              AND (j.queue, -least(j.suspicion, 3), j.priority) > (s.queue, s.level, s.priority)
            ORDER BY j.queue, least(j.suspicion, 3) DESC, j.priority, j.tag, j.due, j.seq LIMIT 1) AS n
    ), aside (queue, task, lacks, suspect, priority, due) AS (
        (SELECT j.queue, j.task, j.lacks_thread, least(j.suspicion, 1), j.priority, j.due FROM headgate.live j
         WHERE j.set_aside
         ORDER BY j.queue, j.task, j.lacks_thread, least(j.suspicion, 1), j.priority, j.tag, j.due, j.seq LIMIT 1)
        UNION ALL
        SELECT n.* FROM aside a CROSS JOIN LATERAL (
            SELECT j.queue, j.task, j.lacks_thread, least(j.suspicion, 1), j.priority, j.due FROM headgate.live j
            WHERE j.set_aside AND (j.queue, j.task, j.lacks_thread, least(j.suspicion, 1), j.priority)
                > (a.queue, a.task, a.lacks, a.suspect, a.priority)
            ORDER BY j.queue, j.task, j.lacks_thread, least(j.suspicion, 1), j.priority, j.tag, j.due, j.seq LIMIT 1) AS n
    ), noted (key) AS MATERIALIZED (
        SELECT DISTINCT r.key FROM (
            SELECT c.key FROM headgate.rechecks c WHERE c.ctid > '(0,0)'::tid LIMIT c_keys) AS r
    ), newcomers (key, queue, priority, due, unseen) AS (
        SELECT h.* FROM noted k CROSS JOIN LATERAL (
            SELECT j.waiting_on, j.queue, j.priority, j.due, j.unseen FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = k.key
            ORDER BY j.queue, j.priority, j.tag, j.due, j.seq LIMIT 1) AS h
        UNION ALL
        SELECT n.* FROM newcomers w CROSS JOIN LATERAL (
            SELECT j.waiting_on, j.queue, j.priority, j.due, j.unseen FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = w.key AND (j.queue, j.priority) > (w.queue, w.priority)
            ORDER BY j.queue, j.priority, j.tag, j.due, j.seq LIMIT 1) AS n
    )
    SELECT o.queue, min(o.due) FROM (
        SELECT p.queue, p.due FROM plain p UNION ALL SELECT s.queue, s.due FROM suspects s
        UNION ALL SELECT a.queue, a.due FROM aside a UNION ALL SELECT w.queue, w.due FROM newcomers w WHERE w.unseen
    ) AS o GROUP BY o.queue;
END $$;
