-- Why a job is where it is.

-- name: facts
-- What explains a waiting job.   $1 key  $2 queue  $3 priority  $4 tag  $5 due  $6 seq
-- Up to ten holders, how many of its queue stand before it, what was spent of its rate, whether its queue is paused.
SELECT (SELECT coalesce(json_agg(json_build_array(h.id, h.task, h.worker, h.since, h.reserved, h.units)), '[]') FROM (
            SELECT j.id, j.task, l.worker, h.since, h.reserved, h.units FROM headgate.holders h
            JOIN headgate.jobs j ON j.seq = h.job LEFT JOIN headgate.live l ON l.seq = h.job
            WHERE h.key = $1 ORDER BY h.since, h.job LIMIT 10) AS h),
       (SELECT count(*) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = $1 AND j.queue = $2
            AND (j.priority, j.tag, j.due, j.seq) < ($3::smallint, $4::bigint, $5::bigint, $6::bigint)),
       (SELECT full_at FROM headgate.meters WHERE key = $1),
       (SELECT coalesce(json_agg(json_build_array(s.at, s.units) ORDER BY s.at), '[]') FROM headgate.starts s
           WHERE s.key = $1),
       EXISTS (SELECT 1 FROM headgate.paused WHERE queue = $2),
       (SELECT coalesce(sum(units), 0)::bigint FROM headgate.live WHERE offered_by = $1 AND queue = $2);

-- name: key_counts
-- Holders and waiters of a key, for people.   $1 key
SELECT (SELECT coalesce(sum(units), 0)::bigint FROM headgate.holders WHERE key = $1),
       (SELECT count(*) FROM headgate.live WHERE state = 'waiting' AND waiting_on = $1);
