-- Unfinished jobs whose stored state is none: no line has them, and no verb would meet them. They end as failed.

-- Whether a text is the state of an unfinished job.
CREATE OR REPLACE FUNCTION headgate._garbled(p_state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_state <> 'scheduled' AND p_state <> 'ready' AND p_state <> 'waiting' AND p_state <> 'running'
$$;

-- Hold the next of them; returns them.
-- Locks: jobs, then live, SKIP LOCKED (3).   Reads: live_garbled.
CREATE OR REPLACE FUNCTION headgate._unreadable(p_most integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN ARRAY(
        SELECT l.seq FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq WHERE headgate._garbled(l.state)
        ORDER BY l.seq LIMIT p_most FOR UPDATE SKIP LOCKED);
END $$;

-- What they hold, were promised or wait on, whatever their state.   Reads: holders_job, live by primary key.
CREATE OR REPLACE FUNCTION headgate._keys_of_unreadable(p_seqs bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN ARRAY(
        SELECT h.key FROM headgate.holders h WHERE h.job = ANY (p_seqs)
        UNION SELECT x.offered_by FROM headgate.live x WHERE x.seq = ANY (p_seqs) AND x.offered_by IS NOT NULL
        UNION SELECT x.waiting_on FROM headgate.live x WHERE x.seq = ANY (p_seqs) AND x.waiting_on IS NOT NULL);
END $$;

-- They end as failed, and give back what they hold; returns the keys to offer.   The caller holds them and their keys.
CREATE OR REPLACE FUNCTION headgate._end_unreadable(p_seqs bigint[], p_now bigint, p_keep bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_texts text[] := ARRAY(
        SELECT format('the stored job cannot be read (its state: %s)', quote_literal(l.state))
        FROM unnest(p_seqs) WITH ORDINALITY AS u (seq, n) LEFT JOIN headgate.live l ON l.seq = u.seq ORDER BY u.n);
BEGIN
    RETURN (
        SELECT e.touched FROM headgate._end(NULL, NULL, NULL, p_seqs,
            array_fill('u'::text, ARRAY[cardinality(p_seqs)]), v_texts, NULL, p_now, p_keep) AS e);
END $$;
