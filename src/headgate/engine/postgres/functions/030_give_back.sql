-- The one release (rule 10): let go of all that jobs hold, were promised, or stand in line for. Called before their
-- states change; returns the keys to offer.   The caller holds the jobs, and the keys' rows where they are pending.
-- p_running   they run: they were promised nothing and stand in no line
-- Where jobs may wait although some of a key is free, the next one may need less than the one that leaves the line.
-- Reads: holders_job, live by primary key.
CREATE OR REPLACE FUNCTION headgate._give_back(p_seqs bigint[], p_running boolean) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
    v_left text[];
BEGIN
    WITH gone AS (
        DELETE FROM headgate.holders h WHERE h.job = ANY (p_seqs) RETURNING h.key
    )
    SELECT coalesce(array_agg(g.key), '{}') INTO v_keys FROM gone g;
    IF NOT p_running THEN
        v_keys := v_keys || ARRAY(
            SELECT j.offered_by FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.offered_by IS NOT NULL);
        v_left := ARRAY(SELECT DISTINCT j.waiting_on FROM headgate.live j
                        WHERE j.seq = ANY (p_seqs) AND j.waiting_on IS NOT NULL);
        IF v_left <> '{}' THEN
            v_keys := v_keys || ARRAY(SELECT r.key FROM headgate._in_force(v_left) AS r WHERE r.lines_up);
        END IF;
    END IF;
    RETURN v_keys;
END $$;
