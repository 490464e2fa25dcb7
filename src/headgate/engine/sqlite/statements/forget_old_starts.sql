-- Starts that have left their window.   ?1 now  ?2 how many
-- Writes: starts by rowid, found through starts_gone.
DELETE FROM starts WHERE rowid IN (SELECT rowid FROM starts WHERE gone_at <= ?1 ORDER BY gone_at LIMIT ?2);
