-- Unfinished jobs per queue and state; -1 marks a paused queue.
SELECT queue, state, count(*) FROM headgate.jobs WHERE state = 'ready' AND NOT set_aside GROUP BY queue, state
UNION ALL SELECT queue, state, count(*) FROM headgate.jobs WHERE state = 'ready' AND set_aside GROUP BY queue, state
UNION ALL SELECT queue, state, count(*) FROM headgate.jobs WHERE state = 'scheduled' GROUP BY queue, state
UNION ALL SELECT queue, state, count(*) FROM headgate.jobs WHERE state = 'waiting' GROUP BY queue, state
UNION ALL SELECT queue, state, count(*) FROM headgate.jobs WHERE state = 'running' GROUP BY queue, state
UNION ALL SELECT queue, 'paused', -1 FROM headgate.paused;
