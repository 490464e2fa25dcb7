-- How many match.   $1 states  $2 queue  $3 task  $4 tenant  $5 text or name of the key it waits on  $6 ids  $7 unique
SELECT count(*) FROM headgate._jobs j
WHERE ($1::text[] IS NULL OR j.state = ANY ($1)) AND ($2::text IS NULL OR j.queue = $2) AND ($3::text IS NULL
    OR j.task = $3)
  AND ($4::text IS NULL OR j.tenant = $4)
  AND ($5::text IS NULL OR headgate._text(j.waiting_on) = $5 OR headgate._name(j.waiting_on) = $5)
  AND ($6::text[] IS NULL OR j.id = ANY ($6))
  AND ($7::text IS NULL OR j.unique_key = $7);
