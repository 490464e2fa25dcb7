-- All overrides.
SELECT name, max, value, tenant, "by", at, why, until FROM overrides;
