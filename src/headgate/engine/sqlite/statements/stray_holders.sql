-- Holder records whose job neither runs nor, for a reservation, is pending.   ?1 JSON array of keys
-- Reads: holders by primary key, jobs by rowid.
SELECT h.key, h.job, coalesce(j.id, '#' || h.job), j.state
FROM json_each(?1) k JOIN holders h ON h.key = k.value LEFT JOIN jobs j ON j.seq = h.job
WHERE j.state IS NULL OR NOT (CASE h.reserved WHEN 0 THEN j.state = 'running'
                              ELSE j.state IN ('scheduled', 'ready', 'waiting') END);
