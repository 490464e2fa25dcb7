-- What is needed no more: full meters, starts out of their windows, rows of idle keys with what was computed for them,
-- listeners that are gone. One sweeper at a time. Returns whether there was so much that the next slice should follow at
-- once: what comes with ever new keys has to go as fast.
-- Keys are looked at in the order of their idents, beginning where the last slice ended: those in use cost a look each
-- time round, and idle ones never outnumber them for long.
CREATE OR REPLACE FUNCTION headgate._forget(p_now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    c_slice CONSTANT integer := 1000;
    c_kept  CONSTANT bigint := 3600000000;  -- a number that was computed outlives an hour without use
    v_slice text[];
    v_idle  text[];
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
    DELETE FROM headgate.starts s WHERE s.ctid = ANY (ARRAY(
        SELECT f.ctid FROM headgate.starts f WHERE f.until <= p_now ORDER BY f.until LIMIT c_slice
            FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    v_many := v_many OR v_gone = c_slice;
    DELETE FROM headgate.listeners l WHERE l.id IN (
        SELECT f.id FROM headgate.listeners f WHERE f.until <= headgate._now(NULL) FOR UPDATE SKIP LOCKED);
    v_slice := ARRAY(SELECT k.key FROM headgate.keys k
                     WHERE k.key > coalesce((SELECT m.value FROM headgate.meta m WHERE m.name = 'idle keys'), '')
                     ORDER BY k.key LIMIT c_slice);
    v_idle := ARRAY(SELECT k.key FROM headgate.keys k WHERE k.key = ANY (v_slice)
        AND NOT EXISTS (SELECT 1 FROM headgate.holders h WHERE h.key = k.key)
        AND NOT EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key)
        AND NOT EXISTS (SELECT 1 FROM headgate.computed c WHERE c.key = k.key AND c.at > p_now - c_kept)
        FOR UPDATE SKIP LOCKED);
    IF cardinality(v_idle) > 0 THEN
        -- Looked at once more, now that they are held: until then a job may have been parked there.
        v_idle := ARRAY(SELECT k.key FROM unnest(v_idle) AS k (key)
            WHERE NOT EXISTS (SELECT 1 FROM headgate.holders h WHERE h.key = k.key)
            AND NOT EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key)
            AND NOT EXISTS (SELECT 1 FROM headgate.computed c WHERE c.key = k.key AND c.at > p_now - c_kept));
        DELETE FROM headgate.computed c WHERE c.key = ANY (v_idle);
        DELETE FROM headgate.keys k WHERE k.key = ANY (v_idle);
        v_many := v_many OR cardinality(v_idle) > c_slice / 2;
    END IF;
    INSERT INTO headgate.meta AS m (name, value) VALUES ('idle keys', coalesce(v_slice[c_slice], ''))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE m.value <> excluded.value;
    RETURN v_many;
END $$;
