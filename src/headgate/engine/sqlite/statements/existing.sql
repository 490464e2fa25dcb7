-- Which ids are taken.   ?1 JSON array of ids
-- Reads: the unique index on id.
SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?1));
