-- An idle bucket costs nothing.   ?1 key
DELETE FROM meters WHERE key = ?1;
