-- Waiters per key, for people.
SELECT waiting_on, count(*) FROM jobs WHERE state = 'waiting' GROUP BY waiting_on;
