-- What the audit judges.

-- name: snapshot
-- Everything that admission depends on, at one instant.
SELECT (SELECT coalesce(json_agg(json_build_array(id, state, queue, task, priority, seq, due, use_keys, use_units,
                                                  waiting_on, offered_by, refusals, worker, attempt, tries,
                                                  set_aside, suspicion, lost, tag, share, start_by) ORDER BY seq), '[]')
        FROM headgate._jobs WHERE live),
       (SELECT coalesce(json_agg(json_build_array(h.key, j.id, h.reserved, h.units)), '[]')
        FROM headgate.holders h LEFT JOIN headgate.jobs j ON j.seq = h.job),
       (SELECT coalesce(json_agg(json_build_array(key, at)), '[]') FROM headgate.timers),
       (SELECT coalesce(json_agg(id), '[]') FROM headgate.workers),
       (SELECT coalesce(json_agg(json_build_array(key, full_at)), '[]') FROM headgate.meters),
       (SELECT coalesce(json_agg(json_build_array(key, at, units) ORDER BY at), '[]') FROM headgate.starts),
       (SELECT coalesce(json_agg(DISTINCT u.key), '[]') FROM (
            SELECT r.key FROM headgate.rechecks r
            UNION ALL SELECT w.waiting_on FROM headgate.live w JOIN headgate.changes c
                ON c.name IN (headgate._name(w.waiting_on), headgate._text(w.waiting_on)) AND w.waiting_on > c.after WHERE w.state = 'waiting') AS u);
