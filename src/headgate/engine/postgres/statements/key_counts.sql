-- Holders and waiters per key, for people.   $1 keys (NULL: all)
SELECT coalesce(h.key, w.key), coalesce(h.held, 0), coalesce(w.waiting, 0)
FROM (SELECT key, count(*) AS held FROM headgate.holders WHERE $1::text[] IS NULL OR key = ANY ($1) GROUP BY key) AS h
FULL JOIN (SELECT waiting_on AS key, count(*) AS waiting FROM headgate.live
           WHERE state = 'waiting' AND ($1::text[] IS NULL OR waiting_on = ANY ($1)) GROUP BY waiting_on) AS w
               ON w.key = h.key;
