-- The one release (rule 10): let go of all that jobs hold, were promised, or stand in line for. Called before their
-- states change; returns the keys to offer.   The caller holds the jobs, and the keys' rows where they are pending.
-- p_running   they run: they were promised nothing and stand in no line
-- Reads: holders_job, live by primary key.
CREATE OR REPLACE FUNCTION headgate._give_back(p_seqs bigint[], p_running boolean) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM headgate.holders h WHERE h.job = ANY (p_seqs) RETURNING h.key
    )
    SELECT coalesce(array_agg(g.key), '{}') INTO v_keys FROM gone g;
    IF NOT p_running THEN
        v_keys := v_keys || ARRAY(
            SELECT j.offered_by FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.offered_by IS NOT NULL
            UNION ALL SELECT j.waiting_on FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.waiting_on LIKE 'r%');
    END IF;
    RETURN v_keys;
END $$;
