-- What processes of the release before call: they go on, upon this schema, until they are replaced. To be dropped with the
-- next release.

-- An exchange without a number: its messages are not fenced.
CREATE OR REPLACE FUNCTION headgate.exchange(
    p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[], p_texts text[], p_times bigint[],
    p_want integer, p_queues text[], p_now bigint, p_patience integer, p_ttl bigint, p_keep bigint[], p_by text,
    p_sole boolean)
RETURNS TABLE (
    place bigint, id text, number integer, task text, queue text, args text, tenant text, priority smallint,
    tries integer, retry text, timeout bigint, metadata text, enqueued bigint, progress text,
    at bigint, leased boolean, refused integer[], cancelling text[], next_due bigint, more boolean, wake boolean,
    ended boolean, again boolean, set_aside text[])
LANGUAGE sql VOLATILE AS $$
    SELECT e.place, e.id, e.number, e.task, e.queue, e.args, e.tenant, e.priority, e.tries, e.retry, e.timeout,
           e.metadata, e.enqueued, e.progress, e.at, e.leased, e.refused, e.cancelling, e.next_due, e.more, e.wake,
           e.ended, e.again, e.set_aside
    FROM headgate.exchange(p_worker, p_jobs, p_attempts, p_kinds, p_texts, p_times, p_want, p_queues, p_now, p_patience,
                           p_ttl, p_keep, p_by, p_sole, NULL, true, NULL) AS e
$$;

-- A sweep in one step. Overrides that have run out come first: the rules cannot be changed by a step that holds them.
CREATE OR REPLACE FUNCTION headgate.sweep(p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    OUT at bigint, OUT due integer, OUT lost integer, OUT offered integer, OUT expired integer, OUT more boolean,
        OUT next_due bigint,
    OUT again boolean, OUT wake boolean, OUT look boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    f record;
BEGIN
    IF EXISTS (SELECT 1 FROM headgate.overrides o WHERE o.until <= headgate._now(p_now)) THEN
        PERFORM headgate.expire(p_now);
    END IF;
    SELECT s.at, s.due, s.lost, s.offered, s.expired, s.more, s.next_due, s.again, s.wake, s.look
    INTO at, due, lost, offered, expired, more, next_due, again, wake, look
    FROM headgate.sweep(p_now, p_ttl, p_keep, p_by, 1000) AS s;
    SELECT * INTO f FROM headgate.follow(NULL, p_now, p_ttl, p_by);
    offered := offered + f.offered;
    more := more OR f.more;
    wake := wake OR f.offered > 0;
    again := again OR f.again;
END $$;

-- An exchange that counts no threads.
CREATE OR REPLACE FUNCTION headgate.exchange(
    p_worker text, p_jobs text[], p_attempts integer[], p_kinds text[], p_texts text[], p_times bigint[],
    p_want integer, p_queues text[], p_now bigint, p_patience integer, p_ttl bigint, p_keep bigint[], p_by text,
    p_sole boolean, p_number bigint, p_suspects boolean)
RETURNS TABLE (
    place bigint, id text, number integer, task text, queue text, args text, tenant text, priority smallint,
    tries integer, retry text, timeout bigint, metadata text, enqueued bigint, progress text,
    at bigint, leased boolean, refused integer[], cancelling text[], next_due bigint, more boolean, wake boolean,
    ended boolean, again boolean, set_aside text[], suspicion integer, last bigint, readable boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT e.place, e.id, e.number, e.task, e.queue, e.args, e.tenant, e.priority, e.tries, e.retry, e.timeout,
           e.metadata, e.enqueued, e.progress, e.at, e.leased, e.refused, e.cancelling, e.next_due, e.more, e.wake,
           e.ended, e.again, e.set_aside, e.suspicion, e.last, e.readable
    FROM headgate.exchange(p_worker, p_jobs, p_attempts, p_kinds, p_texts, p_times, p_want, p_queues, p_now, p_patience,
                           p_ttl, p_keep, p_by, p_sole, p_number, p_suspects, NULL) AS e
$$;

-- A worker whose tasks need no threads.
CREATE OR REPLACE FUNCTION headgate.register(p_id text, p_tasks text[], p_queues text[], p_lease bigint, p_host text,
    p_pid bigint, p_concurrency integer, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text)
RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT headgate.register(p_id, p_tasks, '{}', p_queues, p_lease, p_host, p_pid, p_concurrency, p_now, p_ttl, p_keep,
                             p_by)
$$;

-- Restarts whose jobs keep their shares.
CREATE OR REPLACE FUNCTION headgate.steer(p_verb text, p_ids text[], p_args text, p_keys text[], p_units bigint[],
    p_numbers bigint[], p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    OUT done boolean[], OUT states text[], OUT again boolean, OUT wake boolean, OUT ended boolean, OUT problem text,
    OUT subject text, OUT detail text)
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM headgate.steer(p_verb, p_ids, p_args, p_keys, p_units, p_numbers, NULL::text, p_now, p_ttl, p_keep,
                                 p_by)
$$;

-- Restarts with the arguments that jobs have.
CREATE OR REPLACE FUNCTION headgate.steer(p_verb text, p_ids text[], p_now bigint, p_ttl bigint, p_keep bigint[],
    p_by text,
    OUT done boolean[], OUT states text[], OUT again boolean, OUT wake boolean, OUT ended boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT s.done, s.states, s.again, s.wake, s.ended
    FROM headgate.steer(p_verb, p_ids, NULL, NULL, NULL, NULL, NULL, p_now, p_ttl, p_keep, p_by) AS s
$$;

-- Jobs without headers.
CREATE OR REPLACE FUNCTION headgate._enqueue_one(
    p_id text, p_task text, p_queue text, p_args text, p_tenant text, p_priority smallint, p_delay bigint, p_at bigint,
    p_retry text, p_timeout bigint, p_metadata text, p_retention bigint, p_key text, p_units bigint, p_name text,
    p_now bigint, p_by text, p_notify boolean,
    OUT problem text, OUT detail text, OUT state text, OUT again boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT e.problem, e.detail, e.state, e.again
    FROM headgate._enqueue_one(p_id, p_task, p_queue, p_args, p_tenant, p_priority, p_delay, p_at, p_retry, p_timeout,
                               p_metadata, NULL, p_retention, p_key, p_units, p_name, NULL, NULL, NULL, NULL, NULL, p_now,
                               p_by, p_notify) AS e
$$;

-- Jobs without a share that may start whenever they can.
CREATE OR REPLACE FUNCTION headgate._enqueue_one(
    p_id text, p_task text, p_queue text, p_args text, p_tenant text, p_priority smallint, p_delay bigint, p_at bigint,
    p_retry text, p_timeout bigint, p_metadata text, p_headers text, p_retention bigint, p_key text, p_units bigint,
    p_name text, p_now bigint, p_by text, p_notify boolean,
    OUT problem text, OUT detail text, OUT state text, OUT again boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT e.problem, e.detail, e.state, e.again
    FROM headgate._enqueue_one(p_id, p_task, p_queue, p_args, p_tenant, p_priority, p_delay, p_at, p_retry, p_timeout,
                               p_metadata, p_headers, p_retention, p_key, p_units, p_name, NULL, NULL, NULL, NULL, NULL,
                               p_now, p_by, p_notify) AS e
$$;

-- Restarts that bring no numbers.
CREATE OR REPLACE FUNCTION headgate.steer(p_verb text, p_ids text[], p_args text, p_keys text[], p_units bigint[],
    p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    OUT done boolean[], OUT states text[], OUT again boolean, OUT wake boolean, OUT ended boolean, OUT problem text,
    OUT subject text, OUT detail text)
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM headgate.steer(p_verb, p_ids, p_args, p_keys, p_units, NULL, NULL, p_now, p_ttl, p_keep, p_by)
$$;

-- Jobs that bring nothing of the kind of p_more.
CREATE OR REPLACE FUNCTION headgate._enqueue(
    p_ids text[], p_tasks text[], p_queues text[], p_args text[], p_tenants text[], p_priorities smallint[],
    p_delays bigint[], p_ats bigint[], p_retries text[], p_timeouts bigint[], p_uniques text[], p_conflicts text[],
    p_metadatas text[], p_headers text[], p_retentions bigint[], p_use_jobs integer[], p_use_keys text[],
    p_use_units bigint[],
    p_names text[], p_rates boolean[], p_declared json, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    p_notify boolean,
    OUT problem text, OUT subject text, OUT detail text, OUT states text[], OUT rivals text[], OUT again boolean,
    OUT ended boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM headgate._enqueue(p_ids, p_tasks, p_queues, p_args, p_tenants, p_priorities, p_delays, p_ats, p_retries,
                                    p_timeouts, p_uniques, p_conflicts, p_metadatas, p_headers, p_retentions, p_use_jobs,
                                    p_use_keys, p_use_units, p_names, p_rates, p_declared, p_now, p_ttl, p_keep, p_by,
                                    p_notify, NULL)
$$;

CREATE OR REPLACE FUNCTION headgate._enqueue(
    p_ids text[], p_tasks text[], p_queues text[], p_args text[], p_tenants text[], p_priorities smallint[],
    p_delays bigint[], p_ats bigint[], p_retries text[], p_timeouts bigint[], p_uniques text[], p_conflicts text[],
    p_metadatas text[], p_retentions bigint[], p_use_jobs integer[], p_use_keys text[], p_use_units bigint[],
    p_names text[], p_rates boolean[], p_declared json, p_now bigint, p_ttl bigint, p_keep bigint[], p_by text,
    p_notify boolean,
    OUT problem text, OUT subject text, OUT detail text, OUT states text[], OUT rivals text[], OUT again boolean,
    OUT ended boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT e.problem, e.subject, e.detail, e.states, e.rivals, e.again, e.ended
    FROM headgate._enqueue(p_ids, p_tasks, p_queues, p_args, p_tenants, p_priorities, p_delays, p_ats, p_retries,
                           p_timeouts, p_uniques, p_conflicts, p_metadatas, ARRAY[NULL::text], p_retentions, p_use_jobs,
                           p_use_keys, p_use_units, p_names, p_rates, p_declared, p_now, p_ttl, p_keep, p_by, p_notify,
                           NULL) AS e
$$;

-- The jobs that wait on a key, whatever their errors say.
CREATE OR REPLACE FUNCTION headgate._waiting_for(p_text text, p_queue text, p_task text, p_tenant text, p_ids text[],
                                                 p_unique text, p_before bigint, p_most bigint)
RETURNS TABLE (seq bigint)
LANGUAGE sql STABLE AS $$
    SELECT w.seq FROM headgate._waiting_for(p_text, p_queue, p_task, p_tenant, p_ids, p_unique, NULL, p_before, p_most) AS w
$$;

-- A heartbeat that tells nothing of what was done.
CREATE OR REPLACE FUNCTION headgate.heartbeat(p_id text, p_now bigint, OUT beat_at bigint, OUT cancelling text[])
LANGUAGE sql VOLATILE AS $$
    SELECT h.beat_at, h.cancelling FROM headgate.heartbeat(p_id, NULL, p_now) AS h
$$;
