-- Resume a queue.   ?1 queue
DELETE FROM paused WHERE queue = ?1;
