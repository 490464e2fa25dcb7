-- Renew a lease that has not lapsed.   ?1 worker  ?2 now
UPDATE workers SET lease_until = ?2 + lease WHERE id = ?1 AND lease_until > ?2;
