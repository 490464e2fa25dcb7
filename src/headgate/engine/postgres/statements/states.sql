-- Only the states.   $1 ids
SELECT j.id, coalesce(l.state, e.state) FROM headgate.jobs j
LEFT JOIN headgate.live l ON l.seq = j.seq LEFT JOIN headgate.ended e ON e.seq = j.seq WHERE j.id = ANY ($1);
