-- Workers that run jobs without being registered: two index steps per worker that runs anything.
-- Reads: jobs_running, workers by primary key.
WITH RECURSIVE w(worker) AS (
    SELECT min(worker) FROM jobs WHERE state = 'running'
    UNION ALL
    SELECT (SELECT min(j.worker) FROM jobs j WHERE j.state = 'running' AND j.worker > w.worker)
    FROM w WHERE w.worker IS NOT NULL
)
SELECT worker FROM w WHERE worker IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers r WHERE r.id = w.worker);
