-- All limits and overrides, the computed numbers of some keys, and now, at one instant.   $1 now  $2 keys (NULL: all)
SELECT (SELECT coalesce(json_agg(json_build_array(name, kind, max, period, burst, algorithm)), '[]')
    FROM headgate.limits),
       (SELECT coalesce(json_agg(json_build_array(name, max, value, tenant, "by", at, why, until)), '[]')
           FROM headgate.overrides),
       (SELECT coalesce(json_agg(json_build_array(key, max, at)), '[]') FROM headgate.computed
           WHERE $2::text[] IS NULL OR key = ANY ($2)),
       headgate._now($1);
