-- Only the states.   ?1 JSON array of ids
SELECT id, state FROM jobs WHERE id IN (SELECT value FROM json_each(?1));
