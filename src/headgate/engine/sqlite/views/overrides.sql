-- What operators have set.
CREATE TEMP VIEW overrides AS
SELECT name || coalesce('=' || value, '') AS key, name, coalesce(tenant, '') AS tenant, max, "by",
       strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch') || printf('.%06dZ', at % 1000000) AS at,
       why,
       strftime('%Y-%m-%dT%H:%M:%S', until / 1000000, 'unixepoch') || printf('.%06dZ', until % 1000000) AS until
FROM main.overrides
