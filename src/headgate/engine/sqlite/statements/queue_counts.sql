-- Unfinished jobs per queue and state, for people: each part counts in its own index.
SELECT queue, 'ready', count(*) FROM jobs WHERE state = 'ready' AND set_aside = 0 GROUP BY queue
UNION ALL SELECT queue, 'ready', count(*) FROM jobs WHERE state = 'ready' AND set_aside = 1 GROUP BY queue
UNION ALL SELECT queue, 'scheduled', count(*) FROM jobs WHERE state = 'scheduled' GROUP BY queue
UNION ALL SELECT queue, 'waiting', count(*) FROM jobs WHERE state = 'waiting' GROUP BY queue
UNION ALL SELECT queue, 'running', count(*) FROM jobs WHERE state = 'running' GROUP BY queue;
