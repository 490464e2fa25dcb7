-- Every name of a limit that is declared, overridden (`known`) or has keys, in order.   $1 the only one (NULL: all)  $2 the first
-- Reads: limits, overrides, keys_name: one step per name.
WITH RECURSIVE used (name) AS (
    SELECT min(headgate._name(k.key)) FROM headgate.keys k WHERE headgate._name(k.key) >= $2
    UNION ALL
    SELECT (SELECT min(headgate._name(k.key)) FROM headgate.keys k WHERE headgate._name(k.key) > u.name)
    FROM used u WHERE u.name IS NOT NULL
)
SELECT n.name, bool_or(n.known) FROM (
    SELECT name, true FROM headgate.limits UNION ALL SELECT name, true FROM headgate.overrides
    UNION ALL SELECT u.name, false FROM used u WHERE u.name IS NOT NULL) AS n (name, known)
WHERE n.name >= $2 AND ($1::text IS NULL OR n.name = $1) GROUP BY n.name ORDER BY n.name;
