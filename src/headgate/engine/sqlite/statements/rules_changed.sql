-- Tell other processes that limits, overrides or computed numbers have changed.
-- Writes: meta by primary key.
UPDATE meta SET value = value + 1 WHERE name = 'rules';
