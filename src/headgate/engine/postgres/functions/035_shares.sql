-- Fair shares (rule 17): a job's tag, how far a line has come, weights. Mirrors shares.py.
--
-- Tags are read and written without a lock: enqueue rides in callers' transactions. Two transactions that enqueue jobs of
-- one share at the same time may give them the same tags; these are then in the order of their due times.

-- How far apart the tags of a share lie; p_mean where it is charged by time.
CREATE OR REPLACE FUNCTION headgate._step_of(p_weight double precision, p_mean bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(1, round({share_scale} * coalesce(p_mean::double precision / 1000000, 1) / p_weight)::bigint)
$$;

-- The weight of a share: an operator's word, else what code declared, else 1.   Reads: shares by primary key.
CREATE OR REPLACE FUNCTION headgate._weight(p_share text) RETURNS double precision
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT coalesce(s.weight, s.declared) FROM headgate.shares s WHERE s.share = p_share), 1);
END $$;

-- Reads: means and shares by primary key.
CREATE OR REPLACE FUNCTION headgate._step(p_queue text, p_share text, p_by_time boolean) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        CASE WHEN p_by_time THEN (SELECT m.step FROM headgate.means m WHERE m.queue = p_queue AND m.share = p_share) END,
        headgate._step_of(headgate._weight(p_share), NULL));
END $$;

-- Behind what a share's next job stands: what has started in its line, and the last of its share.
-- Reads: virtual by primary key, live_shares: one step of each.
CREATE OR REPLACE FUNCTION headgate._last_tag(p_queue text, p_priority smallint, p_share text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN greatest(
        (SELECT v.tag FROM headgate.virtual v WHERE v.queue = p_queue AND v.priority = p_priority),
        (SELECT l.tag FROM headgate.live l
         WHERE l.queue = p_queue AND l.priority = p_priority AND l.share = p_share
           AND l.share IS NOT NULL AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)
         ORDER BY l.queue DESC, l.priority DESC, l.share DESC, l.tag DESC LIMIT 1), 0);
END $$;

-- Due jobs get their places among the shares of their queues, in the order given. Newcomers have theirs already.
-- The caller holds them; they are scheduled.
CREATE OR REPLACE FUNCTION headgate._tag(p_seqs bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE headgate.live l SET tag = t.tag
    FROM (
        SELECT s.seq, max(s.last) OVER w + sum(s.step) OVER w AS tag
        FROM (
            SELECT j.seq, u.n, j.queue, j.priority, j.share, headgate._last_tag(j.queue, j.priority, j.share) AS last,
                   headgate._step(j.queue, j.share, o.by_time) AS step
            FROM unnest(p_seqs) WITH ORDINALITY AS u (seq, n) JOIN headgate.live j ON j.seq = u.seq
            JOIN headgate.jobs o ON o.seq = u.seq
            WHERE j.share IS NOT NULL AND NOT j.newcomer
        ) AS s WINDOW w AS (PARTITION BY s.queue, s.priority, s.share ORDER BY s.n)
    ) AS t WHERE l.seq = t.seq;
END $$;

-- Whether no other transaction makes the row of this name: it would have to be waited for.
CREATE OR REPLACE FUNCTION headgate._alone(p_name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN pg_try_advisory_xact_lock(1212629335, hashtext({lock} || ' ' || p_name));
END $$;

-- Jobs have started: the virtual time of their lines is not behind them. Where another step moves it at this moment, it
-- is left to that step: no worker waits for another here.
-- Locks: rows of virtual, SKIP LOCKED.
CREATE OR REPLACE FUNCTION headgate._advance(p_seqs bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r     record;
    v_tag bigint;
BEGIN
    FOR r IN SELECT j.queue, j.priority, max(j.tag) AS tag FROM headgate.live j
             WHERE j.seq = ANY (p_seqs) AND j.tag > 0 GROUP BY j.queue, j.priority ORDER BY j.queue, j.priority LOOP
        SELECT v.tag INTO v_tag FROM headgate.virtual v WHERE v.queue = r.queue AND v.priority = r.priority
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            IF NOT EXISTS (SELECT 1 FROM headgate.virtual v WHERE v.queue = r.queue AND v.priority = r.priority)
                AND headgate._alone(r.priority || ' ' || r.queue) THEN
                INSERT INTO headgate.virtual (queue, priority, tag) VALUES (r.queue, r.priority, r.tag)
                ON CONFLICT DO NOTHING;
            END IF;
        ELSIF v_tag < r.tag THEN
            UPDATE headgate.virtual v SET tag = r.tag WHERE v.queue = r.queue AND v.priority = r.priority;
        END IF;
    END LOOP;
END $$;

-- What attempts took is what their shares are charged for; what waits is tagged anew where that differs much.
-- An attempt whose share another step learns about at this moment teaches nothing.
-- p_seqs   jobs of which the attempts that took p_tooks have ended; those that are not charged by time are passed over
-- Locks: rows of means, SKIP LOCKED.
CREATE OR REPLACE FUNCTION headgate._learn_time(p_seqs bigint[], p_tooks bigint[], p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r        record;
    m        record;
    v_first  boolean;
    v_mean   bigint;
    v_weight double precision;
    v_old    bigint;
    v_new    bigint;
BEGIN
    FOR r IN SELECT j.queue, j.share, greatest(u.took, 0) AS took
             FROM unnest(p_seqs, p_tooks) WITH ORDINALITY AS u (seq, took, n) JOIN headgate.jobs j ON j.seq = u.seq
             WHERE j.by_time AND j.share IS NOT NULL ORDER BY u.n LOOP
        SELECT x.us, x.step INTO m FROM headgate.means x WHERE x.queue = r.queue AND x.share = r.share
        FOR UPDATE SKIP LOCKED;
        v_first := NOT FOUND;
        CONTINUE WHEN v_first AND (
            EXISTS (SELECT 1 FROM headgate.means x WHERE x.queue = r.queue AND x.share = r.share)
            OR NOT headgate._alone(length(r.queue) || r.queue || r.share));
        v_mean := coalesce(m.us + floor((r.took - m.us)::numeric / {learnt})::bigint, r.took);
        v_weight := headgate._weight(r.share);
        v_old := coalesce(m.step, headgate._step_of(v_weight, NULL));
        v_new := headgate._step_of(v_weight, v_mean);
        IF abs(v_new - v_old) * 4 > v_old THEN
            PERFORM headgate._retag(r.queue, r.share, v_old, v_new);
        ELSE
            v_new := v_old;
        END IF;
        IF v_first THEN
            INSERT INTO headgate.means (queue, share, us, at, step) VALUES (r.queue, r.share, v_mean, p_now, v_new)
            ON CONFLICT DO NOTHING;
        ELSE
            UPDATE headgate.means x SET us = v_mean, at = p_now, step = v_new
            WHERE x.queue = r.queue AND x.share = r.share;
        END IF;
    END LOOP;
END $$;

-- The queues and priorities in which jobs with a share are due.   Reads: live_shares, one step for each.
CREATE OR REPLACE FUNCTION headgate._shared_lines() RETURNS TABLE (queue text, priority smallint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line (queue, priority) AS (
        (SELECT l.queue, l.priority FROM headgate.live l
         WHERE l.share IS NOT NULL AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)
         ORDER BY l.queue, l.priority LIMIT 1)
        UNION ALL
        SELECT n.* FROM line p CROSS JOIN LATERAL (
            SELECT l.queue, l.priority FROM headgate.live l
            WHERE l.share IS NOT NULL AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)
              AND (l.queue, l.priority) > (p.queue, p.priority)
            ORDER BY l.queue, l.priority LIMIT 1) AS n
    )
    SELECT p.queue, p.priority FROM line p
$$;

-- A share's step has changed in a queue: what waits of it is to be tagged anew, in slices, of which the first comes now.
CREATE OR REPLACE FUNCTION headgate._retag(p_queue text, p_share text, p_old bigint, p_new bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.retags (n, queue, priority, share, virtual, old_step, new_step)
    SELECT nextval('headgate.changes_of_shares'), p.queue, p.priority, p_share,
           coalesce((SELECT v.tag FROM headgate.virtual v WHERE v.queue = p.queue AND v.priority = p.priority), 0), p_old,
           p_new
    FROM headgate._shared_lines() AS p
    WHERE p.queue = p_queue AND p_old <> p_new AND EXISTS (
        SELECT 1 FROM headgate.live l WHERE l.queue = p.queue AND l.priority = p.priority AND l.share = p_share
        AND l.share IS NOT NULL AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer));
    IF FOUND THEN
        PERFORM headgate._retag_slice();
    END IF;
END $$;

-- Tag the next slice of a share anew: the part of the way that is still before each job grows or shrinks with the step.
-- From the front where it shrinks, from the end where it grows, so that none overtakes another of its share meanwhile.
-- Changes of one share in one line come one after the other. What another step holds keeps its tag.
-- Returns whether there is more to do.
-- Locks: a row of retags, then waiters and ready jobs (5), SKIP LOCKED.   Reads: live_shares.
CREATE OR REPLACE FUNCTION headgate._retag_slice() RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_most  CONSTANT integer := 500;
    r       record;
    v_seqs  bigint[];
    v_tags  bigint[];
    v_lines text[];
BEGIN
    SELECT t.* INTO r FROM headgate.retags t
    WHERE NOT EXISTS (SELECT 1 FROM headgate.retags o WHERE o.n < t.n AND o.queue = t.queue AND o.priority = t.priority
                      AND o.share = t.share)
    ORDER BY t.n LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN EXISTS (SELECT 1 FROM headgate.retags);
    END IF;
    IF r.new_step < r.old_step THEN
        SELECT array_agg(s.seq), array_agg(s.tag) INTO v_seqs, v_tags FROM (
            SELECT l.seq, l.tag FROM headgate.live l
            WHERE l.queue = r.queue AND l.priority = r.priority AND l.share = r.share
              AND l.share IS NOT NULL AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)
              AND (l.tag, l.seq) > (coalesce(r.after_tag, r.virtual + 1), coalesce(r.after_seq, 0))
            ORDER BY l.queue, l.priority, l.share, l.tag, l.seq LIMIT c_most) AS s;
    ELSE
        SELECT array_agg(s.seq), array_agg(s.tag) INTO v_seqs, v_tags FROM (
            SELECT l.seq, l.tag FROM headgate.live l
            WHERE l.queue = r.queue AND l.priority = r.priority AND l.share = r.share
              AND l.share IS NOT NULL AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer) AND l.tag > r.virtual
              AND (l.tag, l.seq) < (coalesce(r.after_tag, {unlimited}), coalesce(r.after_seq, 0))
            ORDER BY l.queue DESC, l.priority DESC, l.share DESC, l.tag DESC, l.seq DESC LIMIT c_most) AS s;
    END IF;
    WITH held AS (
        SELECT l.seq FROM headgate.live l WHERE l.seq = ANY (v_seqs) AND l.state <> 'running' FOR UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE headgate.live l
        SET tag = r.virtual + div((l.tag - r.virtual)::numeric * r.new_step, r.old_step)::bigint
        FROM held h WHERE l.seq = h.seq AND l.tag > r.virtual RETURNING l.waiting_on
    )
    SELECT array_agg(DISTINCT m.waiting_on) INTO v_lines FROM moved m WHERE m.waiting_on IS NOT NULL;
    -- Another waiter may be the first of its line now, and need less.
    INSERT INTO headgate.rechecks (key) SELECT f.key FROM headgate._in_force(v_lines) AS f WHERE f.lines_up;
    IF coalesce(cardinality(v_seqs), 0) < c_most THEN
        DELETE FROM headgate.retags t WHERE t.n = r.n;
    ELSE
        UPDATE headgate.retags t SET after_tag = v_tags[c_most], after_seq = v_seqs[c_most] WHERE t.n = r.n;
    END IF;
    RETURN EXISTS (SELECT 1 FROM headgate.retags);
END $$;

-- The next slices of shares that are tagged anew; returns whether there is more to do.
CREATE OR REPLACE FUNCTION headgate.retag() RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN headgate._retag_slice();
END $$;

-- A share's weight has become another one: in force for newcomers at once, for what waits by tagging it anew.
CREATE OR REPLACE FUNCTION headgate._weight_changes(p_share text, p_old double precision) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_new double precision := headgate._weight(p_share);
    q     record;
BEGIN
    IF v_new = p_old THEN
        RETURN;
    END IF;
    FOR q IN SELECT DISTINCT p.queue, m.us, m.step FROM headgate._shared_lines() AS p
             LEFT JOIN headgate.means m ON m.queue = p.queue AND m.share = p_share ORDER BY p.queue LOOP
        PERFORM headgate._retag(q.queue, p_share, coalesce(q.step, headgate._step_of(p_old, NULL)),
                                headgate._step_of(v_new, q.us));
        UPDATE headgate.means m SET step = headgate._step_of(v_new, q.us) WHERE m.queue = q.queue AND m.share = p_share;
    END LOOP;
END $$;

-- Write the weights of code that differ.
-- Locks: their rows, in order.
CREATE OR REPLACE FUNCTION headgate.declare_shares(p_shares text[], p_weights double precision[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r       record;
    v_old   double precision;
BEGIN
    FOR r IN SELECT DISTINCT ON (u.share COLLATE "C") u.share, u.weight
             FROM unnest(p_shares, p_weights) WITH ORDINALITY AS u (share, weight, n)
             LEFT JOIN headgate.shares s ON s.share = u.share
             WHERE s.declared IS DISTINCT FROM u.weight ORDER BY u.share COLLATE "C", u.n DESC LOOP
        v_old := headgate._weight(r.share);
        INSERT INTO headgate.shares (share, declared) VALUES (r.share, r.weight)
        ON CONFLICT (share) DO UPDATE SET declared = excluded.declared;
        PERFORM headgate._weight_changes(r.share, v_old);
    END LOOP;
    RETURN EXISTS (SELECT 1 FROM headgate.retags);
END $$;

-- Put an operator's weight for a share in force, or take it back (p_weight NULL); `there` says whether there was one.
-- Locks: its row.
CREATE OR REPLACE FUNCTION headgate.set_share(p_share text, p_weight double precision, p_author text, p_at bigint,
                                              p_why text, p_until bigint, OUT there boolean, OUT more boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_old double precision;
    s     record;
BEGIN
    SELECT x.weight INTO s FROM headgate.shares x WHERE x.share = p_share FOR UPDATE;
    there := s.weight IS NOT NULL;
    v_old := headgate._weight(p_share);
    IF p_weight IS NOT NULL THEN
        INSERT INTO headgate.shares (share, weight, "by", at, why, until)
        VALUES (p_share, p_weight, p_author, p_at, p_why, p_until)
        ON CONFLICT (share) DO UPDATE SET weight = excluded.weight, "by" = excluded."by", at = excluded.at,
            why = excluded.why, until = excluded.until;
    ELSIF there THEN
        PERFORM headgate._clear_weight(p_share);
    END IF;
    PERFORM headgate._weight_changes(p_share, v_old);
    more := EXISTS (SELECT 1 FROM headgate.retags);
END $$;

-- An operator's weight is none any more.
CREATE OR REPLACE FUNCTION headgate._clear_weight(p_share text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM headgate.shares s WHERE s.share = p_share AND s.declared IS NULL;
    UPDATE headgate.shares s SET weight = NULL, "by" = '', at = 0, why = '', until = NULL WHERE s.share = p_share;
END $$;

-- Weights that have run out are taken back.   Locks: their rows, SKIP LOCKED.   Reads: shares_until.
CREATE OR REPLACE FUNCTION headgate._expire_weights(p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    s     record;
    v_old double precision;
BEGIN
    FOR s IN SELECT x.share FROM headgate.shares x WHERE x.until <= p_now ORDER BY x.until LIMIT 100
             FOR UPDATE SKIP LOCKED LOOP
        v_old := headgate._weight(s.share);
        PERFORM headgate._clear_weight(s.share);
        PERFORM headgate._weight_changes(s.share, v_old);
    END LOOP;
END $$;

-- The shares that have ready or waiting jobs, or a weight, in the order of their names.
-- Reads: live_shares, one step for each share of each line, and what is counted; shares by primary key.
CREATE OR REPLACE FUNCTION headgate._shares(p_after text, p_most integer)
RETURNS TABLE (share text, weight double precision, declared double precision, own double precision, "by" text,
               at bigint, why text, until bigint, pending bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE lines AS MATERIALIZED (SELECT p.queue, p.priority FROM headgate._shared_lines() AS p),
    found (queue, priority, share, n) AS (
        SELECT p.queue, p.priority, f.share, 1 FROM lines p CROSS JOIN LATERAL (
            SELECT min(l.share) AS share FROM headgate.live l
            WHERE l.queue = p.queue AND l.priority = p.priority AND l.share > p_after AND l.share IS NOT NULL
              AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)) AS f
        UNION ALL
        SELECT f.queue, f.priority, (
            SELECT min(l.share) FROM headgate.live l
            WHERE l.queue = f.queue AND l.priority = f.priority AND l.share > f.share AND l.share IS NOT NULL
              AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)), f.n + 1
        FROM found f WHERE f.share IS NOT NULL AND f.n <= p_most
    ), counted AS (
        SELECT f.share, sum(c.jobs)::bigint AS pending FROM found f CROSS JOIN LATERAL (
            SELECT count(*) AS jobs FROM headgate.live l
            WHERE l.queue = f.queue AND l.priority = f.priority AND l.share = f.share AND l.share IS NOT NULL
              AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)) AS c
        WHERE f.share IS NOT NULL GROUP BY f.share
    ), named AS (
        SELECT c.share FROM counted c WHERE c.pending > 0
        UNION SELECT s.share FROM headgate.shares s WHERE s.share > p_after
    )
    SELECT n.share COLLATE "C", coalesce(s.weight, s.declared, 1), s.declared, s.weight, s."by", s.at, s.why, s.until,
           coalesce(c.pending, 0)
    FROM named n LEFT JOIN headgate.shares s ON s.share = n.share LEFT JOIN counted c ON c.share = n.share
    ORDER BY n.share COLLATE "C" LIMIT p_most;
END $$;

-- Forget the virtual time of lines without jobs of any share, and mean times of shares that have been idle for long.
-- A transaction that is still open may have read a virtual time for a job that comes with its commit: if the line began
-- anew meanwhile, that job would stand behind all others. So it is forgotten while no other transaction is under way.
-- p_most   how many of each are looked at
-- Reads: virtual, live_shares, means_at: one step for each; of idle lines live_running.
CREATE OR REPLACE FUNCTION headgate._forget_shares(p_now bigint, p_most integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM headgate.virtual v WHERE v.ctid = ANY (ARRAY(
        SELECT f.ctid FROM headgate.virtual f
        WHERE NOT EXISTS (SELECT 1 FROM headgate.live l WHERE l.queue = f.queue AND l.priority = f.priority
                          AND l.share IS NOT NULL AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer))
          AND NOT EXISTS (SELECT 1 FROM headgate.live l WHERE l.state = 'running' AND l.tag > 0 AND l.queue = f.queue
                          AND l.priority = f.priority)
          AND pg_snapshot_xmin(pg_current_snapshot()) >= pg_current_xact_id()
        LIMIT p_most FOR UPDATE SKIP LOCKED));
    DELETE FROM headgate.means m WHERE m.ctid = ANY (ARRAY(
        SELECT f.ctid FROM headgate.means f
        WHERE f.at <= p_now - {keep_means} AND NOT EXISTS (
            SELECT 1 FROM headgate._shared_lines() AS p JOIN headgate.live l ON l.queue = p.queue
                AND l.priority = p.priority AND l.share = f.share AND l.share IS NOT NULL
                AND (l.state = 'ready' OR l.state = 'waiting' OR l.newcomer)
            WHERE p.queue = f.queue)
        ORDER BY f.at LIMIT p_most FOR UPDATE SKIP LOCKED));
END $$;
