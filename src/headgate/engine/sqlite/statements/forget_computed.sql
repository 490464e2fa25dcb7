-- A computed number of an idle key.   ?1 key
DELETE FROM computed WHERE key = ?1;
