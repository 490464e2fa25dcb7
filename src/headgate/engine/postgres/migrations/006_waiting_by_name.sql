-- What waits by the name of its limit, newest last: a listing of it, and its number, cost what they show. Its condition
-- holds for all that waits, but does not follow from what other statements ask: on a table that was not analyzed yet, all
-- indexes that might serve seem to cost the same, and a line would be read through this one.

CREATE INDEX live_waiting_name ON headgate.live (headgate._name(waiting_on), seq)
    WHERE octet_length(waiting_on) > 0;

-- Rows that no verb would meet, since their state is none. There should be none.
CREATE INDEX live_garbled ON headgate.live (seq)
    WHERE state <> 'scheduled' AND state <> 'ready' AND state <> 'waiting' AND state <> 'running';

DELETE FROM headgate.meta WHERE name = 'idle keys';

-- Made anew with other parameters; nothing but other functions calls it.
DROP FUNCTION IF EXISTS headgate._changed(text[], bigint);
