-- Who holds a key.   ?1 key  ?2 how many
SELECT j.id, j.task, j.worker, h.since, h.reserved
FROM holders h JOIN jobs j ON j.seq = h.job
WHERE h.key = ?1 ORDER BY h.since, h.job LIMIT ?2;
