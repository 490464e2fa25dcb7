-- Headers, tasks that need a thread, restarts with other arguments.
--
--   jobs.headers        a few short texts that travel with a job. (Its row is written anew only where an import brings
--                       another retry policy, or a restart other arguments and keys.)
--   workers.threaded    those of its tasks that need a thread
--   live.lacks_thread   set aside (`set_aside` is true, too) by a claim that had no thread to spare; it keeps its offer
--
-- Jobs that were set aside stand in one line for each queue, task and reason, so that a claim reads only the lines that
-- are of use to it, each from its front.

ALTER TABLE headgate.jobs ADD COLUMN headers text;
ALTER TABLE headgate.workers ADD COLUMN threaded text[] COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE headgate.live ADD COLUMN lacks_thread boolean NOT NULL DEFAULT false;

DROP INDEX headgate.live_aside;
CREATE INDEX live_aside ON headgate.live (queue, task, lacks_thread, least(suspicion, 1), priority, due, seq)
    WHERE set_aside;

-- Made anew with other parameters or results; nothing but other functions calls them.
DROP FUNCTION IF EXISTS headgate._ready(text[], text[], integer, bigint[], text, integer, boolean, bigint, boolean,
    boolean, boolean, boolean);
DROP FUNCTION IF EXISTS headgate._suspects(text[], text[], integer, bigint[], text, integer, boolean, bigint);
DROP FUNCTION IF EXISTS headgate._claim(bigint[], text[], boolean, boolean, boolean, text[], bigint, integer);
DROP FUNCTION IF EXISTS headgate._restart(bigint, bigint);
