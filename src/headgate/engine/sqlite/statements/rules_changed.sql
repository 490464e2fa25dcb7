-- Tell other processes that limits or overrides have changed.
-- Writes: meta by primary key.
UPDATE meta SET value = value + (1 << 32) WHERE name = 'rules';
