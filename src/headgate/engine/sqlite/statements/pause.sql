-- Pause a queue.   ?1 queue
INSERT OR IGNORE INTO paused (queue) VALUES (?1);
