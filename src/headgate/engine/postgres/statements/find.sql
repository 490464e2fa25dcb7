-- Jobs that match, newest first.   $1 states  $2 queue  $3 task  $4 tenant  $5 text or name of the key it waits on
-- $6 ids  $7 unique  $8 after  $9 how many
-- Reads: live and ended by primary key backwards, each as far as needed, or the index of what was asked for.
SELECT * FROM (
    (SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units::text[], retry, timeout,
           unique_key, metadata, retention, waiting_on, units, attempt, tries, worker, started_at, ended_at, outcome,
           cancel_requested, error, result, progress, NULL::text AS past, suspicion, lost
    FROM headgate._live_jobs j
    WHERE ($1::text[] IS NULL OR j.state = ANY ($1)) AND ($2::text IS NULL OR j.queue = $2)
      AND ($3::text IS NULL OR j.task = $3) AND ($4::text IS NULL OR j.tenant = $4)
      AND ($5::text IS NULL OR headgate._text(j.waiting_on) = $5 OR headgate._name(j.waiting_on) = $5)
      AND ($6::text[] IS NULL OR j.id = ANY ($6)) AND ($7::text IS NULL OR j.unique_key = $7)
      AND ($8::text IS NULL
           OR j.seq < coalesce((SELECT a.seq FROM headgate.jobs a WHERE a.id = $8), 9223372036854775807))
    ORDER BY j.seq DESC LIMIT $9)
    UNION ALL
    (SELECT seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, use_keys, use_units::text[], retry, timeout,
           unique_key, metadata, retention, waiting_on, units, attempt, tries, worker, started_at, ended_at, outcome,
           cancel_requested, error, result, progress, NULL::text AS past, suspicion, lost
    FROM headgate._ended_jobs j
    WHERE ($1::text[] IS NULL OR j.state = ANY ($1)) AND ($2::text IS NULL OR j.queue = $2)
      AND ($3::text IS NULL OR j.task = $3) AND ($4::text IS NULL OR j.tenant = $4)
      AND ($5::text IS NULL OR headgate._text(j.waiting_on) = $5 OR headgate._name(j.waiting_on) = $5)
      AND ($6::text[] IS NULL OR j.id = ANY ($6)) AND ($7::text IS NULL OR j.unique_key = $7)
      AND ($8::text IS NULL
           OR j.seq < coalesce((SELECT a.seq FROM headgate.jobs a WHERE a.id = $8), 9223372036854775807))
    ORDER BY j.seq DESC LIMIT $9)
) AS f ORDER BY f.seq DESC LIMIT $9;
