-- Tell other processes that a computed number has changed.
-- Writes: meta by primary key.
UPDATE meta SET value = value + 1 WHERE name = 'rules';
