-- Jobs that match, newest first: the first p_most of the unfinished ones, and of the ended ones.
-- p_states … p_unique   NULL: whatever it is   p_error   a text in the first line of its error
-- p_since, p_until      when it ended, the latter exclusive: ended jobs only   p_after   the id of the last page's last
-- Planned anew each time, by what is asked for: a page of what is common is read in order, what is rare by its index.
-- Reads: live and ended by primary key backwards, each as far as needed, or the index of what was asked for.
CREATE OR REPLACE FUNCTION headgate._find(p_states text[], p_queue text, p_task text, p_tenant text, p_ids text[],
    p_unique text, p_error text, p_since bigint, p_until bigint, p_after text, p_most bigint)
RETURNS TABLE (seq bigint)
LANGUAGE plpgsql STABLE SET jit = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    c_pending CONSTANT text[] := '{scheduled,waiting,running}';
    c_ended   CONSTANT text[] := '{succeeded,failed,cancelled}';
    v_before  bigint := coalesce((SELECT a.seq FROM headgate.jobs a WHERE a.id = p_after), 9223372036854775807);
    v_seqs    bigint[] := CASE WHEN p_ids IS NOT NULL THEN
        ARRAY(SELECT o.seq FROM headgate.jobs o WHERE o.id = ANY (p_ids)) END;
    v_ready   boolean := p_states IS NULL OR 'ready' = ANY (p_states);
    v_waiting boolean := p_states IS NULL OR 'waiting' = ANY (p_states);
    -- Newcomers show as ready while they stand in line: a matter of those lines alone where only one of both is asked for.
    v_unmet   bigint[] := CASE WHEN p_since IS NULL AND p_until IS NULL AND v_ready <> v_waiting THEN ARRAY(
        SELECT l.seq FROM (SELECT DISTINCT c.key FROM headgate.rechecks c) AS n CROSS JOIN LATERAL (
            SELECT j.seq FROM headgate.live j
            WHERE j.state = 'waiting' AND j.waiting_on = n.key AND j.unseen AND j.seq < v_before OFFSET 0) AS l) ELSE '{}' END;
BEGIN
    IF p_since IS NULL AND p_until IS NULL AND (p_states IS NULL OR p_states && (c_pending || 'ready'::text)) THEN
        RETURN QUERY
        SELECT j.seq FROM headgate.live j
        WHERE (p_states IS NULL OR j.state = ANY (p_states)) AND j.seq < v_before
          -- Ready jobs stand in lines of three kinds, each with an index of its own.
          AND ((p_states <> '{ready}') IS NOT FALSE OR j.state = 'ready' AND NOT j.set_aside AND j.suspicion = 0
               OR j.set_aside OR j.state = 'ready' AND NOT j.set_aside AND j.suspicion > 0)
          AND (v_seqs IS NULL OR j.seq = ANY (v_seqs))
          AND (p_queue IS NULL OR j.queue = p_queue) AND (p_task IS NULL OR j.task = p_task)
          AND (p_tenant IS NULL OR j.tenant = p_tenant) AND (p_unique IS NULL OR j.unique_key = p_unique)
          AND (p_error IS NULL OR headgate._says(j.error, p_error))
          AND (v_unmet = '{}' OR v_ready OR j.seq <> ALL (v_unmet))
        ORDER BY j.seq DESC LIMIT p_most;
        IF v_unmet <> '{}' AND v_ready THEN
            RETURN QUERY
            SELECT j.seq FROM headgate.live j
            WHERE j.seq = ANY (v_unmet) AND (v_seqs IS NULL OR j.seq = ANY (v_seqs))
              AND (p_queue IS NULL OR j.queue = p_queue) AND (p_task IS NULL OR j.task = p_task)
              AND (p_tenant IS NULL OR j.tenant = p_tenant) AND (p_unique IS NULL OR j.unique_key = p_unique)
              AND (p_error IS NULL OR headgate._says(j.error, p_error))
            ORDER BY j.seq DESC LIMIT p_most;
        END IF;
    END IF;
    IF p_states IS NOT NULL AND NOT p_states && c_ended THEN
        RETURN;
    END IF;
    -- The newest jobs may all be unfinished: they are not read one by one in search of the first that has ended.
    v_before := least(v_before, (SELECT max(e.seq) + 1 FROM headgate.ended e));
    IF p_queue IS NULL AND p_task IS NULL AND p_tenant IS NULL AND p_unique IS NULL THEN
        RETURN QUERY
        SELECT e.seq FROM headgate.ended e
        WHERE (p_states IS NULL OR e.state = ANY (p_states)) AND e.seq < v_before
          AND (v_seqs IS NULL OR e.seq = ANY (v_seqs)) AND (p_error IS NULL OR headgate._says(e.error, p_error))
          AND (p_since IS NULL OR e.ended_at >= p_since) AND (p_until IS NULL OR e.ended_at < p_until)
        ORDER BY e.seq DESC LIMIT p_most;
    ELSE
        RETURN QUERY
        SELECT e.seq FROM headgate.ended e JOIN headgate.jobs j ON j.seq = e.seq
        WHERE (p_states IS NULL OR e.state = ANY (p_states)) AND e.seq < v_before AND j.seq < v_before
          AND (v_seqs IS NULL OR e.seq = ANY (v_seqs)) AND (p_error IS NULL OR headgate._says(e.error, p_error))
          AND (p_since IS NULL OR e.ended_at >= p_since) AND (p_until IS NULL OR e.ended_at < p_until)
          AND (p_queue IS NULL OR j.queue = p_queue) AND (p_task IS NULL OR j.task = p_task)
          AND (p_tenant IS NULL OR j.tenant = p_tenant) AND (p_unique IS NULL OR j.unique_key = p_unique)
        ORDER BY e.seq DESC LIMIT p_most;
    END IF;
END $$;
