-- Only the states.   $1 ids
SELECT id, state FROM headgate._states($1);
