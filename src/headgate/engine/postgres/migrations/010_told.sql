-- What is told besides: the keys of a started job, its share and until when it must start to questions in SQL (the views are
-- made anew). A function whose result gains a column at its end is made anew; the
-- statements of processes of the version before name the columns that they read.

DROP FUNCTION IF EXISTS headgate.exchange(text, text[], integer[], text[], text[], bigint[], integer, text[], bigint,
                                          integer, bigint, bigint[], text, boolean, bigint, boolean, integer);

-- Made anew with other parameters.
DROP FUNCTION IF EXISTS headgate._restart(bigint, bigint, text, text[], bigint[], bigint[]);
DROP FUNCTION IF EXISTS headgate._update(bigint, text, text[], bigint[], bigint[], text, text, bigint, bigint, bigint);
DROP FUNCTION IF EXISTS headgate._replace(text[], bigint[], bigint[], bigint[], text[], text[], text[], text[], text[],
    bigint[], bigint[], bigint[], integer[], text[], bigint[], bigint[], bigint, bigint[], boolean);
