-- The queues and tasks that have jobs set aside: two index steps per pair, however many jobs each has.
-- ?1 gravity
-- Reads: jobs_aside.
WITH RECURSIVE t(queue, task) AS (
    SELECT * FROM (SELECT queue, task FROM jobs WHERE state = 'ready' AND set_aside = 1 AND gravity = ?1
                   ORDER BY queue, task LIMIT 1)
    UNION ALL
    SELECT j.queue, j.task FROM t JOIN jobs j ON j.seq = coalesce(
        (SELECT n.seq FROM jobs n
         WHERE n.state = 'ready' AND n.set_aside = 1 AND n.gravity = ?1 AND n.queue = t.queue AND n.task > t.task
         ORDER BY n.task LIMIT 1),
        (SELECT n.seq FROM jobs n
         WHERE n.state = 'ready' AND n.set_aside = 1 AND n.gravity = ?1 AND n.queue > t.queue
         ORDER BY n.queue, n.task LIMIT 1)
    )
)
SELECT queue, task FROM t;
