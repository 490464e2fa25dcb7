-- Only the states.   $1 ids
SELECT j.id, j.state FROM headgate.jobs j WHERE j.id = ANY ($1);
