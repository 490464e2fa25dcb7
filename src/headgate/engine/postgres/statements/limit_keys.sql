-- The keys of a limit that are held, waited for, computed or overridden, in the order of a listing, with their counts.
-- $1 name  $2 after this text  $3 and tenant  $4 how many (NULL: all)
-- Reads: keys_text, computed_text, overrides_name, holders, live_waiting.
SELECT u.key, (SELECT count(*) FROM headgate.holders h WHERE h.key = u.key),
       (SELECT count(*) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = u.key)
FROM (
    (SELECT k.key FROM headgate.keys k
     WHERE headgate._name(k.key) = $1 AND (headgate._text(k.key), headgate._tenant(k.key)) > ($2, $3)
       AND (EXISTS (SELECT 1 FROM headgate.holders h WHERE h.key = k.key)
            OR EXISTS (SELECT 1 FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key))
     ORDER BY headgate._name(k.key), headgate._text(k.key), headgate._tenant(k.key) LIMIT $4)
    UNION
    (SELECT c.key FROM headgate.computed c
     WHERE headgate._name(c.key) = $1 AND (headgate._text(c.key), headgate._tenant(c.key)) > ($2, $3)
     ORDER BY headgate._name(c.key), headgate._text(c.key), headgate._tenant(c.key) LIMIT $4)
    UNION
    (SELECT i.key FROM headgate.overrides o LEFT JOIN headgate.limits l ON l.name = o.name
     CROSS JOIN LATERAL (
         SELECT CASE WHEN l.kind = 'rate' THEN 'r' ELSE 'c' END || length(coalesce(o.tenant, '')) || ':'
                || coalesce(o.tenant, '') || o.name || coalesce('=' || o.value, '') AS key) AS i
     WHERE o.name = $1 AND (o.value IS NOT NULL OR o.tenant IS NOT NULL)
       AND (headgate._text(i.key), headgate._tenant(i.key)) > ($2, $3))
) AS u ORDER BY headgate._text(u.key), headgate._tenant(u.key) LIMIT $4;
