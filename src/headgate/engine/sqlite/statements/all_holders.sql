-- Every holder record with its job's id, for the audit.
SELECT h.key, coalesce(j.id, '#' || h.job), h.reserved FROM holders h LEFT JOIN jobs j ON j.seq = h.job;
