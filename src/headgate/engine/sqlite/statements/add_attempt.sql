-- An attempt that ended without ending its job.   ?1 job ?2 number ?3 outcome ?4 started ?5 ended ?6 worker ?7 error
INSERT OR REPLACE INTO attempts (job, number, outcome, started_at, ended_at, worker, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
