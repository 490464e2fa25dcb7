-- The last numbered message of a worker that took effect.   ?1 worker  ?2 number
-- Writes: workers by primary key.
UPDATE workers SET number = ?2 WHERE id = ?1;
