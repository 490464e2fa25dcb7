-- The keys of a limit that are held or waited for, in the order of their idents.
-- $1 name  $2 computed before (NULL: whenever)  $3 after  $4 how many
-- Reads: keys_name, holders and computed by primary key, live_waiting.
SELECT k.key, (SELECT count(*) FROM headgate.holders h WHERE h.key = k.key),
       (SELECT count(*) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key)
FROM headgate.keys k LEFT JOIN headgate.computed c ON c.key = k.key
WHERE headgate._name(k.key) = $1 AND k.key > $3 AND ($2::bigint IS NULL OR coalesce(c.at, 0) < $2)
  AND (EXISTS (SELECT 1 FROM headgate.holders h WHERE h.key = k.key)
       OR EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key))
ORDER BY k.key LIMIT $4;
