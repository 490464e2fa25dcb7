-- Keys that a number was computed for, in order.   ?1 first key  ?2 below which key (NULL: to the end)  ?3 how many
-- Reads: computed by primary key.
SELECT key FROM computed WHERE key >= CAST(?1 AS TEXT) AND (?2 IS NULL OR key < ?2) ORDER BY key LIMIT ?3;
