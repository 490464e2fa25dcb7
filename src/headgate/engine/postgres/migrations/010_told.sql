-- What is told besides: the keys of a started job. A function whose result gains a column at its end is made anew; the
-- statements of processes of the version before name the columns that they read.

DROP FUNCTION IF EXISTS headgate.exchange(text, text[], integer[], text[], text[], bigint[], integer, text[], bigint,
                                          integer, bigint, bigint[], text, boolean, bigint, boolean, integer);
