-- What an exchange needs to know first: the worker's lease and tasks, the paused queues, and whether any job is set aside.
-- ?1 worker
-- Reads: workers by primary key, paused, the first entry of jobs_aside.
SELECT lease_until, tasks,
       (SELECT json_group_array(queue) FROM paused),
       EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND set_aside = 1)
FROM workers WHERE id = ?1;
