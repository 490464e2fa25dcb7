-- The attempts of a job that did not end it.   ?1 job
SELECT number, outcome, started_at, ended_at, worker, error FROM attempts WHERE job = ?1 ORDER BY number;
