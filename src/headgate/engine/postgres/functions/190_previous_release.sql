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
                           p_ttl, p_keep, p_by, p_sole, NULL, true) AS e
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
