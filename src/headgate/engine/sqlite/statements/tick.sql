-- The last tick of a periodic task.   ?1 task
SELECT at FROM ticks WHERE task = ?1;
