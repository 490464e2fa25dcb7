-- The paused queues.
SELECT queue FROM paused;
