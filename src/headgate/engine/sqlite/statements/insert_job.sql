-- A new job in the state that admission gave it.
-- Writes: jobs, its unique index on id, and the index of its state.
INSERT INTO jobs (id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique_key,
                  metadata, retention, waiting_on, offered_by, units, refusals)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
