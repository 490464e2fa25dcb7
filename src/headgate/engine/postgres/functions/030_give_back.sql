-- The one release (rule 10): let go of all that jobs hold, were promised, or stand in line for. Called before their
-- states change; returns the keys to offer.   The caller holds the keys' rows.
-- Reads: holders_job, jobs by primary key.
CREATE OR REPLACE FUNCTION headgate._give_back(p_seqs bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM headgate.holders h WHERE h.job = ANY (p_seqs) RETURNING h.key
    )
    SELECT array_agg(k.key) INTO v_keys FROM (
        SELECT g.key FROM gone g
        UNION SELECT j.offered_by FROM headgate.jobs j WHERE j.seq = ANY (p_seqs) AND j.offered_by IS NOT NULL
        UNION SELECT j.waiting_on FROM headgate.jobs j WHERE j.seq = ANY (p_seqs) AND j.waiting_on LIKE 'r%'
    ) AS k;
    RETURN coalesce(v_keys, '{}');
END $$;
