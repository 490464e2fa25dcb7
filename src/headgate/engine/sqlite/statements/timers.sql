-- Every timer, for the audit.
SELECT key, at FROM timers;
