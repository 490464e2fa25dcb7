-- Periodic tasks: one row each, held while it ticks (0).

-- Move a periodic task's last tick from what was seen; false if another process did, or while it is paused.
-- Locks: the tick's row (0).
CREATE OR REPLACE FUNCTION headgate.tick(p_name text, p_seen bigint, p_at bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- Held before the look at what is paused: a pause waits for the row, and ends behind the tick.
    PERFORM 1 FROM headgate.ticks t WHERE t.task = p_name FOR UPDATE;
    IF EXISTS (SELECT 1 FROM headgate.paused_schedules p WHERE p.task = p_name) THEN
        RETURN false;
    END IF;
    IF p_seen IS NULL THEN
        INSERT INTO headgate.ticks (task, at) VALUES (p_name, p_at) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE headgate.ticks t SET at = p_at WHERE t.task = p_name AND t.at = p_seen;
    END IF;
    RETURN FOUND;
END $$;

-- Let a periodic task tick no more; false if it was paused already. (A task that has never ticked has no row to wait
-- for: its first tick makes no job.)
-- Locks: its row in paused_schedules, then the tick's row (0).
CREATE OR REPLACE FUNCTION headgate.pause_schedule(p_name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.paused_schedules (task) VALUES (p_name) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM headgate.ticks t WHERE t.task = p_name FOR UPDATE;
    RETURN true;
END $$;

-- Let it tick again, from now on; false if it was not paused.
-- Locks: its row in paused_schedules, then the tick's row (0).
CREATE OR REPLACE FUNCTION headgate.resume_schedule(p_name text, p_now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM headgate.paused_schedules p WHERE p.task = p_name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO headgate.ticks AS t (task, at) VALUES (p_name, headgate._now(p_now))
    ON CONFLICT (task) DO UPDATE SET at = excluded.at;
    RETURN true;
END $$;
