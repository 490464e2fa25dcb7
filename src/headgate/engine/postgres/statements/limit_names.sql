-- Every name of a limit that is declared, overridden or has keys, in order.   $1 the only one (NULL: all)  $2 the first
-- Reads: limits, overrides, keys_name: one step per name.
WITH RECURSIVE used (name) AS (
    SELECT min(headgate._name(k.key)) FROM headgate.keys k WHERE headgate._name(k.key) >= $2
    UNION ALL
    SELECT (SELECT min(headgate._name(k.key)) FROM headgate.keys k WHERE headgate._name(k.key) > u.name)
    FROM used u WHERE u.name IS NOT NULL
)
SELECT n.name FROM (
    SELECT name FROM headgate.limits UNION SELECT name FROM headgate.overrides
    UNION SELECT u.name FROM used u WHERE u.name IS NOT NULL) AS n
WHERE n.name >= $2 AND ($1::text IS NULL OR n.name = $1) ORDER BY n.name;
