-- Reading limits and their keys.

-- name: rules
-- All limits, overrides and throttled keys, the numbers of some keys, and now, at one instant.   $1 now  $2 keys (NULL: all)
SELECT (SELECT coalesce(json_agg(json_build_array(name, kind, max, period, burst, algorithm, sized, estimated, adaptive,
                                                  per_key, when_full, max_waiting, on_overflow)), '[]')
    FROM headgate.limits),
       (SELECT coalesce(json_agg(json_build_array(name, max, value, tenant, "by", at, why, until)), '[]')
           FROM headgate.overrides),
       (SELECT coalesce(json_agg(json_build_array(key, max, at, reason)), '[]') FROM headgate.computed
           WHERE $2::text[] IS NULL OR key = ANY ($2)),
       (SELECT coalesce(json_agg(json_build_array(b.key, b.number, b.before, b.at) ORDER BY b.seq), '[]')
           FROM headgate.brought b WHERE $2::text[] IS NULL OR b.key = ANY ($2)),
       (SELECT coalesce(json_agg(json_build_array(key, opens_at, step)), '[]') FROM headgate.gates),
       headgate._now($1);

-- name: meters
-- What was spent of rate keys.   $1 keys
-- Reads: meters by primary key, starts_key.
SELECT (SELECT coalesce(json_agg(json_build_array(m.key, m.full_at)), '[]') FROM headgate.meters m WHERE m.key = ANY ($1)),
       (SELECT coalesce(json_agg(json_build_array(s.key, s.at, s.units) ORDER BY s.at), '[]') FROM headgate.starts s
           WHERE s.key = ANY ($1));

-- name: shares
-- Fair shares.   $1 after  $2 how many
SELECT share, weight, declared, own, "by", at, why, until, pending FROM headgate._shares($1, $2);

-- name: limit_names
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

-- name: limit_totals
-- What all keys of a limit hold and have waiting together, and whether that is exact.   $1 name  $2 stop at (NULL: never)
SELECT held, waiting, exact FROM headgate._limit_totals($1, $2);

-- name: limit_keys
-- The keys of a limit in the order of a listing.   $1 name  $2 after this text  $3 and tenant  $4 how many (NULL: all)
SELECT key, held, waiting FROM headgate._listed_keys($1, $2, $3, $4);

-- name: keys_in_use
-- The keys of a limit that are held or waited for.   $1 name  $2 computed before (NULL: whenever)  $3 after  $4 how many
SELECT key, held, waiting FROM headgate._keys_of_limit($1, $2, $3, $4);

-- name: weight
-- The weight of a share.   $1 share
SELECT headgate._weight($1);
