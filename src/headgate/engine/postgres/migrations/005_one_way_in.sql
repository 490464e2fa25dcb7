-- Every newcomer stands in the line of its first key: the line of those that were ready without having been asked for
-- their keys goes. What stands there is ready like any other job, and the claim asks for all of its keys. (The column
-- `fresh` stays, always false: views depend on it, and what others have built upon them.)

UPDATE headgate.live SET fresh = false WHERE fresh;

DROP INDEX headgate.live_fresh;
DROP INDEX headgate.live_ready;
CREATE INDEX live_ready ON headgate.live (queue, priority, due, seq)
    WHERE state = 'ready' AND NOT set_aside AND suspicion = 0;

-- Made anew with other parameters or results; what processes of the release before call keeps its names and columns.
DROP FUNCTION IF EXISTS headgate._next(text[], bigint);
DROP FUNCTION IF EXISTS headgate._give_back(bigint[]);
DROP FUNCTION IF EXISTS headgate._pass_on(text[], text[], text[], boolean);
DROP FUNCTION IF EXISTS headgate._merge(bigint[], bigint[], text[], integer);
DROP FUNCTION IF EXISTS headgate._arrivals(bigint[], bigint, text[], boolean);
DROP FUNCTION IF EXISTS headgate._promise(bigint[], text[]);
DROP FUNCTION IF EXISTS headgate._meet(bigint[], text[], bigint);
DROP FUNCTION IF EXISTS headgate._claim(bigint[], text[], text[], text[], bigint, integer);
DROP FUNCTION IF EXISTS headgate._ready(text[], text[], integer, bigint[], text, integer, boolean, bigint);
DROP FUNCTION IF EXISTS headgate._settle(bigint[], text[], text[], bigint[], bigint, bigint[]);
DROP FUNCTION IF EXISTS headgate._report(text, text[], integer[], text[], text[], bigint[]);
DROP FUNCTION IF EXISTS headgate._cancel(bigint, bigint, bigint[]);
DROP FUNCTION IF EXISTS headgate._end_each(bigint[], text[], text[], bigint[], bigint, bigint[], text[]);
DROP FUNCTION IF EXISTS headgate._cancelling(text);
DROP FUNCTION IF EXISTS headgate._next_due();
DROP FUNCTION IF EXISTS headgate._asked(text);
DROP FUNCTION IF EXISTS headgate._next_keys(text[], boolean);
DROP FUNCTION IF EXISTS headgate._lock_more(bigint[], text[]);
DROP FUNCTION IF EXISTS headgate._conflicts(text[], bigint[], text[], text[], text[]);
DROP FUNCTION IF EXISTS headgate._oust(text[], bigint[], bigint[], text[], text[], json, boolean, bigint, bigint[],
    boolean);
DROP FUNCTION IF EXISTS headgate._take_back(bigint[]);
