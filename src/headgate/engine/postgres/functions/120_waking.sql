-- Tell who sleeps. NOTIFY takes a lock of the whole cluster at commit, so it is sent only where somebody listens.
-- p_work, p_ended   what happened          p_by   the listener that knows already
-- Returns false if a process that listens has all the work it wants: it will ask again by itself, and whoever calls
-- this must look again after its commit, since that process may go to sleep at this very moment.
CREATE OR REPLACE FUNCTION headgate.wake(p_work boolean, p_ended boolean, p_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_work  boolean;
    v_busy  boolean;
    v_ended boolean;
BEGIN
    SELECT bool_or(l.work), bool_or(NOT l.work), bool_or(l.ended) INTO v_work, v_busy, v_ended
    FROM headgate.listeners l WHERE l.id IS DISTINCT FROM p_by;
    IF p_work AND v_work THEN
        PERFORM pg_notify({channel}, 'w' || coalesce(p_by, ''));
    END IF;
    IF p_ended AND v_ended THEN
        PERFORM pg_notify({channel}, 'e' || coalesce(p_by, ''));
    END IF;
    RETURN NOT (p_work AND coalesce(v_busy, false));
END $$;
