-- All keys of a changed limit were looked at.   ?1 name
DELETE FROM unsettled WHERE name = ?1;
