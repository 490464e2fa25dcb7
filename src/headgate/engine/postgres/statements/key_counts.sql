-- Holders and waiters of a key, for people.   $1 key
SELECT (SELECT count(*) FROM headgate.holders WHERE key = $1),
       (SELECT count(*) FROM headgate.live WHERE state = 'waiting' AND waiting_on = $1);
