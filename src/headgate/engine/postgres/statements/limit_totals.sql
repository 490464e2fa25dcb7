-- What all keys of a limit hold and have waiting together.   $1 name
-- Reads: keys_name, holders, live_waiting: it costs what is held and waits.
SELECT coalesce(sum((SELECT count(*) FROM headgate.holders h WHERE h.key = k.key)), 0)::bigint,
       coalesce(sum((SELECT count(*) FROM headgate.live j WHERE j.state = 'waiting' AND j.waiting_on = k.key)), 0)::bigint
FROM headgate.keys k WHERE headgate._name(k.key) = $1;
