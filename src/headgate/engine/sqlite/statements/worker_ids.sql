-- The ids of the registered workers.
SELECT id FROM workers;
