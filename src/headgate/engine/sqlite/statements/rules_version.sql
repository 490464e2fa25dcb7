-- How often the rules have changed: what every step needs to know first.
-- Reads: meta by primary key.
SELECT value FROM meta WHERE name = 'rules';
