-- Move a periodic task's last tick from what was seen; false if another process did.   Locks: the tick's row (0).
CREATE OR REPLACE FUNCTION headgate.tick(p_name text, p_seen bigint, p_at bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_seen IS NULL THEN
        INSERT INTO headgate.ticks (task, at) VALUES (p_name, p_at) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE headgate.ticks t SET at = p_at WHERE t.task = p_name AND t.at = p_seen;
    END IF;
    RETURN FOUND;
END $$;
