-- Numbered messages, blame, keys by name, and changes of limits that act in slices.
--
--   workers.number       the last message of the registration that took effect (rule 13)
--   live.suspicion …     what is known of a job whose workers were lost (rule 15); ready suspects have a line of their own
--   keys_name, keys_text the keys in use by their limit, in the order of idents and in the order of a listing
--   starts.until         when a start leaves its window
--   changes              limits whose numbers changed, and the last of their keys that was looked at since
--
-- Indexes are built upon the parts of a key, so the functions that tell them (functions/000_preface.sql) come first.

-- The length of the tenant in a key's ident (`c0:name`, `r4:acmename=value`); NULL where a text is no ident. What was
-- garbled must not make a step fail that happens to meet it.
CREATE OR REPLACE FUNCTION headgate._tenant_length(p_key text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos(p_key, ':') BETWEEN 3 AND 6
                     AND translate(substr(p_key, 2, strpos(p_key, ':') - 2), '0123456789', '') = ''
                THEN substr(p_key, 2, strpos(p_key, ':') - 2)::integer END
$$;

-- The parts of a key's ident.
CREATE OR REPLACE FUNCTION headgate._tenant(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substr(p_key, strpos(p_key, ':') + 1, headgate._tenant_length(p_key)), '')
$$;

CREATE OR REPLACE FUNCTION headgate._text(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substr(p_key, strpos(p_key, ':') + 1 + headgate._tenant_length(p_key)), p_key)
$$;

CREATE OR REPLACE FUNCTION headgate._name(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT split_part(headgate._text(p_key), '=', 1)
$$;

ALTER TABLE headgate.workers ADD COLUMN number bigint NOT NULL DEFAULT 0;

ALTER TABLE headgate.live
    ADD COLUMN suspicion  integer NOT NULL DEFAULT 0,
    ADD COLUMN lost       integer NOT NULL DEFAULT 0,
    ADD COLUMN lost_after bigint  NOT NULL DEFAULT 0;

DROP INDEX headgate.live_ready;
CREATE INDEX live_ready ON headgate.live (queue, priority, due, seq) WHERE state = 'ready' AND NOT set_aside
    AND NOT fresh AND suspicion = 0;
CREATE INDEX live_suspects ON headgate.live (queue, least(suspicion, 3) DESC, priority, due, seq)
    WHERE state = 'ready' AND NOT set_aside AND suspicion > 0;

CREATE INDEX rechecks_key ON headgate.rechecks (key);

CREATE INDEX keys_name ON headgate.keys (headgate._name(key), key);
CREATE INDEX keys_text ON headgate.keys (headgate._name(key), headgate._text(key), headgate._tenant(key));
CREATE INDEX computed_text ON headgate.computed (headgate._name(key), headgate._text(key), headgate._tenant(key));

ALTER TABLE headgate.starts ADD COLUMN until bigint NOT NULL DEFAULT 9223372036854775807;
UPDATE headgate.starts s SET until = s.at + coalesce((
    SELECT l.period FROM headgate.limits l WHERE l.name = headgate._name(s.key)), 0);
DROP INDEX headgate.starts_at;
CREATE INDEX starts_until ON headgate.starts (until);

CREATE TABLE headgate.changes (
    name  text COLLATE "C" PRIMARY KEY,
    after text COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);

-- Made anew with other parameters or results; nothing but other functions calls them.
DROP FUNCTION IF EXISTS headgate._ready(text[], text[], integer, bigint[]);
DROP FUNCTION IF EXISTS headgate._pass_on(text[], text[], text[], integer, boolean);
DROP FUNCTION IF EXISTS headgate._checks(integer);
DROP FUNCTION IF EXISTS headgate._declare(json, bigint);
DROP FUNCTION IF EXISTS headgate._waited(text[]);
DROP FUNCTION IF EXISTS headgate._act(text[], bigint, bigint, text);
DROP FUNCTION IF EXISTS headgate._forget(bigint);
DROP FUNCTION IF EXISTS headgate._wait(json, integer);
DROP FUNCTION IF EXISTS headgate._end_all(text, text, text, bigint, bigint, bigint[], text);
