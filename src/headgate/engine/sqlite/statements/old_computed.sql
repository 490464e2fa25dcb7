-- Numbers that were computed long ago, and whether their keys are idle.   ?1 after  ?2 until  ?3 how many
-- Reads: computed_at, holders by primary key, jobs_waiting.
SELECT c.key, c.at, NOT EXISTS (SELECT 1 FROM holders h WHERE h.key = c.key)
       AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.state = 'waiting' AND j.waiting_on = c.key)
FROM computed c WHERE c.at > ?1 AND c.at <= ?2 ORDER BY c.at LIMIT ?3;
