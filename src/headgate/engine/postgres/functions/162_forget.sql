-- What is needed no more: full meters, starts out of their windows, history, rows of idle keys with what was computed for
-- them, listeners that are gone. One sweeper at a time. Returns whether there was so much that the next slice should follow at
-- once: what comes with ever new keys has to go as fast.
-- Reads: meters_full, and what _forget_starts, _forget_history and _forget_keys read.
CREATE OR REPLACE FUNCTION headgate._forget(p_now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    c_slice CONSTANT integer := 1000;
    v_gone  integer;
    v_many  boolean := false;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1212629333, {lock}) THEN
        RETURN false;
    END IF;
    DELETE FROM headgate.meters m WHERE m.key IN (
        SELECT f.key FROM headgate.meters f WHERE f.full_at <= p_now ORDER BY f.full_at LIMIT c_slice
            FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    v_many := v_gone = c_slice;
    v_many := headgate._forget_starts(p_now, c_slice) OR v_many;
    v_many := headgate._forget_history(p_now, c_slice) OR v_many;
    PERFORM headgate._forget_shares(p_now, c_slice);
    DELETE FROM headgate.kept_keys k WHERE k.job IN (
        SELECT f.job FROM headgate.kept_keys f WHERE f.until <= p_now ORDER BY f.until LIMIT c_slice FOR UPDATE SKIP LOCKED);
    DELETE FROM headgate.listeners l WHERE l.id IN (
        SELECT f.id FROM headgate.listeners f WHERE f.until <= headgate._now(NULL) FOR UPDATE SKIP LOCKED);
    RETURN headgate._forget_keys(p_now, c_slice) OR v_many;
END $$;

-- Forget starts that have left their window. One whose window has become longer since it was written stays. Returns
-- whether there were as many as were looked at.   p_most   how many are looked at
-- Reads: starts_until, limits.
CREATE OR REPLACE FUNCTION headgate._forget_starts(p_now bigint, p_most integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_old tid[] := ARRAY(SELECT f.ctid FROM headgate.starts f WHERE f.until <= p_now ORDER BY f.until LIMIT p_most
                         FOR UPDATE SKIP LOCKED);
BEGIN
    UPDATE headgate.starts s SET until = s.at + l.period FROM headgate.limits l
    WHERE s.ctid = ANY (v_old) AND l.name = headgate._name(s.key) AND l.algorithm = 'sliding_window'
      AND s.at + l.period > p_now;
    DELETE FROM headgate.starts s WHERE s.ctid = ANY (v_old) AND s.until <= p_now;
    RETURN cardinality(v_old) = p_most;
END $$;

-- Forget idle keys. Keys are looked at in the order of their idents, from where the last sweep ended, twice as many as
-- were made since, and a few more: that is what the looking costs, however many keys are in use, and idle ones never
-- outnumber these for long. Where most of a slice is idle, a larger one follows; returns whether most of that was, too.
-- The keys that were made are counted by the server: what it has not counted yet, the next sweep finds.
-- p_most   how many are looked at together
-- Locks: idle keys (4), SKIP LOCKED.   Reads: keys, holders and computed by primary key, live_waiting: one step per key.
CREATE OR REPLACE FUNCTION headgate._forget_keys(p_now bigint, p_most integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_few   CONSTANT integer := 32;
    v_made  bigint := coalesce(pg_stat_get_tuples_inserted('headgate.keys'::regclass), 0);
    v_stood text;              -- how many had been made, a blank, and the last key that was looked at
    v_after text;
    v_size  integer;
    v_last  text;
    v_seen  integer;
    v_idle  integer;
BEGIN
    v_stood := coalesce((SELECT m.value FROM headgate.meta m WHERE m.name = 'keys looked at'), '0 ');
    v_after := substr(v_stood, strpos(v_stood, ' ') + 1);
    v_size := least(p_most, c_few + 2 * greatest(0, v_made - split_part(v_stood, ' ', 1)::bigint));
    LOOP
        SELECT f.last, f.seen, f.idle INTO v_last, v_seen, v_idle
        FROM headgate._forget_slice(v_after, v_size, p_now) AS f;
        v_after := CASE WHEN v_seen < v_size THEN '' ELSE v_last END;
        EXIT WHEN v_seen < v_size OR v_idle * 2 <= v_size OR v_size = p_most;
        v_size := p_most;
    END LOOP;
    INSERT INTO headgate.meta AS m (name, value) VALUES ('keys looked at', v_made || ' ' || v_after)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE m.value <> excluded.value;
    RETURN v_seen = p_most AND v_idle * 2 > p_most;
END $$;

-- Forget those that are idle of the next keys. `last` is the last of them, `seen` and `idle` how many there were.
CREATE OR REPLACE FUNCTION headgate._forget_slice(p_after text, p_most integer, p_now bigint,
                                                  OUT last text, OUT seen integer, OUT idle integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_slice text[];
    v_idle  text[];
BEGIN
    v_slice := ARRAY(SELECT k.key FROM headgate.keys k WHERE k.key > p_after ORDER BY k.key LIMIT p_most);
    last := v_slice[cardinality(v_slice)];
    seen := cardinality(v_slice);
    idle := 0;
    v_idle := headgate._idle(v_slice, p_now);
    IF cardinality(v_idle) > 0 THEN
        v_idle := ARRAY(SELECT k.key FROM headgate.keys k WHERE k.key = ANY (v_idle) FOR UPDATE SKIP LOCKED);
        -- Looked at once more, now that they are held: until then a job may have been parked there.
        v_idle := headgate._idle(v_idle, p_now);
        idle := cardinality(v_idle);
        DELETE FROM headgate.computed c WHERE c.key = ANY (v_idle);
        DELETE FROM headgate.brought b WHERE b.key = ANY (v_idle);
        DELETE FROM headgate.keys k WHERE k.key = ANY (v_idle);
    END IF;
END $$;

-- Those of some keys that are neither held nor waited for, and for which no number was computed or brought within the last
-- hour, and which were not throttled.
-- (Asked one by one: as a join, the server might read all that is held and waits.)
CREATE OR REPLACE FUNCTION headgate._idle(p_keys text[], p_now bigint) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_kept CONSTANT bigint := {keep_numbers};
BEGIN
    RETURN ARRAY(
        SELECT u.key FROM unnest(p_keys) AS u (key)
        WHERE (SELECT 1 FROM headgate.holders h WHERE h.key = u.key LIMIT 1) IS NULL
          AND (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = u.key LIMIT 1) IS NULL
          AND (SELECT 1 FROM headgate.computed c WHERE c.key = u.key AND c.at > p_now - c_kept) IS NULL
          AND (SELECT 1 FROM headgate.brought b WHERE b.key = u.key AND b.at > p_now - c_kept LIMIT 1) IS NULL
          AND (SELECT 1 FROM headgate.gates g WHERE g.key = u.key) IS NULL);
END $$;
