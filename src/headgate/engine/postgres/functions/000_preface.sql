-- The rules of engine/admission.py on PostgreSQL. Where each is decided (docs/decisions/028-one-page-of-rules.md
-- compares it with Python and Lua, function by function):
--
--   arrive     040_arrive     a job became due: ready if all its keys have room, else parked, or what 042_full says
--   claim      050_claim      the one walker: a ready job takes all its keys at once, or is parked
--   give back  030_give_back  the one release: nothing of a job stays behind
--   offer      020_offer      waiters of every touched key, in order
--   end        070_end        every attempt ends here, however it ends
--   share      035_shares     a job's place among the shares of its queue
--   spend      055_rates      tokens: spent, corrected, closed
--   exchange   110_exchange   a worker's step: lock, settle and give back, offer, claim, answer
--
-- A newcomer arrives without a lock. Enqueue rides in a caller's transaction, which may stay open for minutes, so it
-- asks no key: a job that needs any stands in the line of its first key at once (`unseen`), and the key goes into
-- `rechecks`. Job and entry appear with the same commit. A claim with places to fill, or a sweep, takes the entry off
-- and offers the room of its key, as if a slot had come back: the job that is offered it is asked for the rest of its
-- keys when it is claimed, like any other. Until then it shows as ready. (A call that declares a limit or replaces a
-- job, outside of a caller's transaction, holds the rules and the keys anyway: its jobs arrive by the full rule.)
-- A newcomer of a limit that may turn it away stands in no line, since lines are counted: it is scheduled, due and marked
-- (`newcomer`), and arrives with the next exchange or sweep, in the order of lines.
--
-- How the verbs lock, so that no two of them can wait for each other in a circle.
--
--   0  names      unique keys in the order of (tenant, key): a step that makes an unfinished job of that key, by
--                 enqueue, restart or import, holds it, so that a rival may go but none can come. Then the ids of new
--                 jobs, by inserting them in the order of their ids. Before both: a periodic task's pause and its
--                 tick, a row each.
--   1  rules      one advisory lock: shared by steps that decide on keys or move jobs, exclusive for those that change
--                 numbers, which is a matter of a few rows. It comes after the names, for which a step may have to wait
--                 until a caller's transaction ends.
--      changes    one row: a limit whose numbers changed and whose waited-for keys are looked at, slice by slice
--   2  workers    the worker whose message is carried out, by writing its number: two messages of one worker are
--                 carried out one after the other, and the one that comes second sees the other's number (rule 13).
--                 Lapsed, lost, retiring or returning ones FOR UPDATE.
--   3  jobs       where jobs are named by those that steer or import: their rows in `jobs`, in the order of their ids,
--                 waiting if need be. Only the holder of that row may bring an ended job back to life, change how it
--                 ended, or delete it.
--      live       rows that a verb was asked about, in the order of `seq`, waiting if need be; after them rows that it
--                 finds by itself (ready, due; expired ones in `jobs`) with SKIP LOCKED, which never waits
--   4  keys       rows in the byte order of their idents, made where missing, all of a verb's in one statement
--   5  live again waiters that are offered room: with SKIP LOCKED, which never waits. A waiter that another step has
--                 locked puts its key into `rechecks`: the next claim or sweep looks again, whatever the other one did.
--   6  keys again those of newly offered jobs: only if they are free at that moment; else the job is left ready
--   7  listeners  one row, last; of a heartbeat, which takes 2 only: rows of history, in their order.
--
-- What all exchanges write (virtual and mean times of shares) is written where it is free, and left to others where it is
-- not: rows are taken with SKIP LOCKED, and made by the one transaction that gets an advisory lock without waiting.
-- A verb waits only in 0 to 4 and 7, in this order, and within each in one global order: a circle is impossible.
-- Holders are written by the step that holds the row of their job, or of their key where it is a reservation; meters,
-- starts, timers and computed numbers by the one that holds the row of their key; limits and overrides by the one that
-- changes the rules. A time that is compared or written is read after the locks that protect it: a step may wait for
-- them. Every step may add entries to `rechecks`; a step that takes one off (SKIP LOCKED) looks at its key itself.
-- (A caller's transaction that enqueues several times is several verbs in a row: in it, names are taken in the caller's
-- order.)
--
-- Enqueue takes only 0, unless it replaces a job or declares a limit. (Where it replaces a job in a caller's
-- transaction, it takes its row, but no rules and no key, and notes the keys in `rechecks`, too.)
--
-- The numbers of the rules come from Python (scripts.py): slices of an offer, looks of a claim, what stands for no
-- limit, levels of blame.
--
-- Plans: the verbs set plan_cache_mode = force_generic_plan (planning these statements costs more than running them)
-- and forbid scans that a plan made on an empty table would be stuck with. Before 18, a scan that is made all the same
-- seems so costly that the server would compile the statement, for a tenth of a second each time: so they forbid that,
-- too (jit = off). What is called as a value is plpgsql, whose plans are kept for the session; functions in FROM are
-- SQL, so that they melt into the plan of their caller: where an argument is a query or calls a function that is VOLATILE,
-- they do not, and before 18 the server plans them at each call, for a third of the time that a claim takes.
--
-- Names with a leading underscore are internal. They expect their callers to hold the locks.

-- The store's clock in microseconds, unless the caller brings one.
CREATE OR REPLACE FUNCTION headgate._now(p_now bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- The length of the tenant in a key's ident (`c0:name`, `r4:acmename=value`); NULL where a text is no ident. What was
-- garbled must not make a step fail that happens to meet it.
CREATE OR REPLACE FUNCTION headgate._tenant_length(p_key text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos(p_key, ':') BETWEEN 3 AND 6
                     AND translate(substr(p_key, 2, strpos(p_key, ':') - 2), '0123456789', '') = ''
                THEN substr(p_key, 2, strpos(p_key, ':') - 2)::integer END
$$;

-- The parts of a key's ident.
CREATE OR REPLACE FUNCTION headgate._tenant(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substr(p_key, strpos(p_key, ':') + 1, headgate._tenant_length(p_key)), '')
$$;

CREATE OR REPLACE FUNCTION headgate._text(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substr(p_key, strpos(p_key, ':') + 1 + headgate._tenant_length(p_key)), p_key)
$$;

CREATE OR REPLACE FUNCTION headgate._name(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT split_part(headgate._text(p_key), '=', 1)
$$;

-- A key and a queue as one text, which no other pair makes.
CREATE OR REPLACE FUNCTION headgate._pair(p_key text, p_queue text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT length(p_key) || ':' || p_key || p_queue
$$;

-- Hold the rules while deciding, or change them (lock 1).
CREATE OR REPLACE FUNCTION headgate._hold_rules() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1212629332, {lock});
END $$;

CREATE OR REPLACE FUNCTION headgate._change_rules() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1212629332, {lock});
END $$;

-- Hold unique keys (0). The rows are gone as soon as they are made: what holds the key is that they are not committed.
CREATE OR REPLACE FUNCTION headgate._lock_uniques(p_tenants text[], p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO headgate.uniques (tenant, key)
    SELECT u.tenant, u.key FROM unnest(p_tenants, p_keys) AS u (tenant, key)
    WHERE u.key IS NOT NULL GROUP BY u.tenant, u.key ORDER BY u.tenant COLLATE "C", u.key COLLATE "C"
    ON CONFLICT DO NOTHING;
    DELETE FROM headgate.uniques q USING unnest(p_tenants, p_keys) AS u (tenant, key) WHERE q.tenant = u.tenant
        AND q.key = u.key;
END $$;

-- Lock keys (4), making their rows where missing.
-- DO UPDATE … WHERE false locks the row that is there and writes nothing.
CREATE OR REPLACE FUNCTION headgate._lock_keys(p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF cardinality(p_keys) > 0 THEN
        INSERT INTO headgate.keys (key)
        SELECT u.key FROM unnest(p_keys) AS u (key)
        WHERE u.key IS NOT NULL GROUP BY u.key ORDER BY u.key COLLATE "C"
        ON CONFLICT (key) DO UPDATE SET key = excluded.key WHERE false;
    END IF;
END $$;

-- Lock further keys without waiting (6); false if one of them cannot be had now.
CREATE OR REPLACE FUNCTION headgate._try_keys(p_keys text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_there integer;
    v_got   integer;
    v_limit text := current_setting('lock_timeout');
BEGIN
    SELECT count(*) INTO v_there FROM headgate.keys k WHERE k.key = ANY (p_keys);
    SELECT count(*) INTO v_got FROM (
        SELECT 1 FROM headgate.keys k WHERE k.key = ANY (p_keys) FOR UPDATE SKIP LOCKED) AS got;
    IF v_got < v_there THEN
        RETURN false;
    END IF;
    IF v_there < cardinality(p_keys) THEN
        -- Another step may be making the same row at this moment: wait for a millisecond at most.
        PERFORM set_config('lock_timeout', '1', true);
        BEGIN
            PERFORM headgate._lock_keys(p_keys);
        EXCEPTION WHEN lock_not_available THEN
            PERFORM set_config('lock_timeout', v_limit, true);
            RETURN false;
        END;
        PERFORM set_config('lock_timeout', v_limit, true);
    END IF;
    RETURN true;
END $$;
