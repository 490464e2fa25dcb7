-- The arrival number of a job.   ?1 id
SELECT seq FROM jobs WHERE id = ?1;
