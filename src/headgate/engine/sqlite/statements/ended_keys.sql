-- What jobs that were just ended may hold: their tasks, queues and keys.   ?1 JSON array of seqs
-- Reads: jobs by rowid.
SELECT jobs.seq, jobs.id, jobs.task, jobs.queue, jobs.uses FROM json_each(?1) r JOIN jobs ON jobs.seq = r.value;
