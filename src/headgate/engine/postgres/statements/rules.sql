-- All limits, overrides and computed numbers, and now, at one instant.   $1 now
SELECT (SELECT coalesce(json_agg(json_build_array(name, kind, max, period, burst, algorithm)), '[]')
    FROM headgate.limits),
       (SELECT coalesce(json_agg(json_build_array(name, max, value, tenant, "by", at, why, until)), '[]')
           FROM headgate.overrides),
       (SELECT coalesce(json_agg(json_build_array(key, max, at)), '[]') FROM headgate.computed),
       headgate._now($1);
