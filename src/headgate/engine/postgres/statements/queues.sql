-- Unfinished jobs per queue and state; -1 marks a paused queue.
SELECT queue, state, count(*) FROM headgate._jobs WHERE live GROUP BY queue, state
UNION ALL SELECT queue, 'paused', -1 FROM headgate.paused;
