-- Every unfinished job, for the audit.
SELECT id, state, queue, task, priority, seq, due, uses, waiting_on, offered_by, refusals, worker, attempt, tries,
       set_aside, suspicion, lost
FROM jobs WHERE state IN ('scheduled', 'ready', 'waiting', 'running') ORDER BY seq;
