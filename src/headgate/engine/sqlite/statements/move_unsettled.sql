-- A slice of a changed limit's keys was looked at.   ?1 name  ?2 key
UPDATE unsettled SET from_key = ?2 WHERE name = ?1;
