-- How many match; parameters as in find.
SELECT count(*) FROM jobs
WHERE (?1 IS NULL OR state IN (SELECT value FROM json_each(?1)))
  AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3) AND (?4 IS NULL OR tenant = ?4)
  AND (?5 IS NULL OR waiting_on IN (SELECT value FROM json_each(?5))) AND (?6 IS NULL OR id IN (SELECT value FROM json_each(?6)))
  AND (?7 IS NULL OR unique_key = ?7);
