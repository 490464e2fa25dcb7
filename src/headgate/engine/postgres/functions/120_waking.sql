-- Wake processes that sleep. NOTIFY takes a lock of the whole cluster at commit, so it is sent only where one listens.
-- p_work, p_ended   what happened          p_by   the listener that knows already
-- Returns false if a process that listens has all the work it wants: it will ask again by itself, and the caller
-- must look again after its commit, since that process may go to sleep at this very moment.
CREATE OR REPLACE FUNCTION headgate.wake(p_work boolean, p_ended boolean, p_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT headgate._ring(p_work, p_ended, p_by, bool_or(l.work), bool_or(NOT l.work), bool_or(l.ended))
        FROM headgate.listeners l WHERE l.id IS DISTINCT FROM p_by
    );
END $$;

-- The same for a step that has looked already: whether others want work, have all they want, or wait for ended jobs.
CREATE OR REPLACE FUNCTION headgate._ring(p_work boolean, p_ended boolean, p_by text, p_wanted boolean, p_busy boolean,
                                          p_awaited boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_work AND p_wanted THEN
        PERFORM pg_notify({channel}, 'w' || coalesce(p_by, ''));
    END IF;
    IF p_ended AND p_awaited THEN
        PERFORM pg_notify({channel}, 'e' || coalesce(p_by, ''));
    END IF;
    RETURN NOT (p_work AND coalesce(p_busy, false));
END $$;
