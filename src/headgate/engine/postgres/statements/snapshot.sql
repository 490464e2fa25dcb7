-- Everything that admission depends on, at one instant.
SELECT (SELECT coalesce(json_agg(json_build_array(j.id, l.state, l.queue, l.task, l.priority, l.seq, l.due, l.use_keys,
                                                  l.use_units, l.waiting_on, l.offered_by, l.refusals, l.worker,
                                                  l.attempt, l.tries, l.set_aside) ORDER BY l.seq), '[]')
        FROM headgate.live l JOIN headgate.jobs j ON j.seq = l.seq),
       (SELECT coalesce(json_agg(json_build_array(h.key, j.id, h.reserved)), '[]')
        FROM headgate.holders h LEFT JOIN headgate.jobs j ON j.seq = h.job),
       (SELECT coalesce(json_agg(json_build_array(key, at)), '[]') FROM headgate.timers),
       (SELECT coalesce(json_agg(id), '[]') FROM headgate.workers),
       (SELECT coalesce(json_agg(json_build_array(key, full_at)), '[]') FROM headgate.meters),
       (SELECT coalesce(json_agg(json_build_array(key, at, units) ORDER BY at), '[]') FROM headgate.starts);
