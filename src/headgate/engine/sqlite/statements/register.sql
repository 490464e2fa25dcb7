-- A worker's lease begins.   ?1 id ?2 tasks ?3 queues ?4 lease ?5 host ?6 pid ?7 concurrency ?8 now ?9 lease_until
INSERT OR REPLACE INTO workers (id, tasks, queues, lease, host, pid, concurrency, registered_at, lease_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);
