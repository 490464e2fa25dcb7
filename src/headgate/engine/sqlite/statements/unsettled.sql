-- Limits that have changed and whose keys have yet to be looked at.
SELECT name, from_key FROM unsettled ORDER BY name;
