-- Only the states.   $1 ids
SELECT j.id, j.state FROM headgate._jobs j WHERE j.id = ANY ($1);
