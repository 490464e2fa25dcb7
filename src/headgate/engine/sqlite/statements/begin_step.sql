-- What every step needs to know first: how often the rules have changed.
-- Reads: meta by primary key.
SELECT value FROM meta WHERE name = 'rules';
