-- How the store stands as a whole.

-- name: totals
-- How many jobs there are in each state, and whether that is exact.   $1 stop at (NULL: never)
SELECT state, jobs, exact FROM headgate._totals($1) WHERE $1 IS NOT NULL
UNION ALL SELECT state, count(*), true FROM headgate._jobs WHERE $1 IS NULL GROUP BY state;

-- name: queues
-- Unfinished jobs per queue and state, and whether that is exact; `paused` marks a paused queue; since when the first
-- ready one is due.   $1 stop at (NULL: never)
SELECT queue, state, jobs, exact FROM headgate._queues($1) WHERE $1 IS NOT NULL
UNION ALL SELECT queue, state, count(*), true FROM headgate._jobs WHERE live AND $1 IS NULL GROUP BY queue, state
UNION ALL SELECT queue, 'paused', 1, true FROM headgate.paused
UNION ALL SELECT queue, 'oldest', due, true FROM headgate._oldest();

-- name: tightest
-- The keys that most jobs wait on.   $1 how many
SELECT key, held, waiting, exact FROM headgate._tightest($1);

-- name: key_stands
-- How some keys stand.   $1 keys  $2 how many holders  $3 and waiters  $4 now
SELECT held, waiting, exact, free, earliest, holders, waiters FROM headgate._key_stands($1, $2, $3, $4);

-- name: history
-- What was done, by spans of time.   $1 since  $2 length of a span  $3 queue  $4 task  $5 whether queues and tasks are told apart
-- Reads: history by primary key.
SELECT h.at - h.at % $2 AS span, CASE WHEN $5 THEN h.queue ELSE '' END AS in_queue,
       CASE WHEN $5 THEN h.task ELSE '' END AS of_task, sum(started)::bigint, sum(succeeded)::bigint, sum(failed)::bigint,
       sum(retried)::bigint, sum(cancelled)::bigint, sum(waited)::bigint, max(longest), sum(ran)::bigint
FROM headgate.history h
WHERE h.at >= $1 AND ($3::text IS NULL OR h.queue = $3) AND ($4::text IS NULL OR h.task = $4)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
