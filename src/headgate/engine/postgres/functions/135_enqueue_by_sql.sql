-- Enqueueing for clients that have no Headgate: a plain function, and what it refuses.

-- What is wrong with a request, as no app would make it; NULL if nothing is.
CREATE OR REPLACE FUNCTION headgate._wrong_with(p_task text, p_args json, p_options jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF json_typeof(p_args) IS DISTINCT FROM 'object' THEN
        RETURN format('the arguments must be a JSON object such as {"to": "a@b.c"}, not %s',
                      coalesce(p_args::text, 'NULL'));
    ELSIF jsonb_typeof(p_options) <> 'object' THEN
        RETURN format('the options must be a JSON object such as {"queue": "email"}, not %s', p_options);
    END IF;
    RETURN coalesce(
        (SELECT 'unknown options: ' || string_agg(o.name, ', ') FROM jsonb_object_keys(p_options) AS o (name)
         WHERE o.name NOT IN ('queue', 'tenant', 'priority', 'delay', 'at', 'id', 'unique', 'on_conflict', 'metadata',
                              'headers', 'timeout', 'attempts', 'retry_delay', 'limits', 'share', 'expires', 'unique_for',
                              'at_most')),
        (SELECT format('%s must be a text of 1 to 256 bytes, not %s', o.name, coalesce(o.value::text, 'NULL'))
         FROM (SELECT 'task' AS name, to_jsonb(p_task) AS value
               UNION ALL SELECT e.key, e.value FROM jsonb_each(p_options) AS e
               WHERE e.key IN ('queue', 'tenant', 'id', 'unique', 'at', 'share') AND e.value <> 'null') AS o
         WHERE (jsonb_typeof(o.value) = 'string' AND octet_length(o.value #>> '{}') BETWEEN 1 AND 256) IS NOT TRUE
         LIMIT 1),
        (SELECT format('%s must be a %s from %s to %s, not %s', o.name,
                       CASE WHEN o.whole THEN 'whole number' ELSE 'number of seconds' END, o.least, o.most, o.value)
         FROM (SELECT b.*, p_options -> b.name AS value FROM (VALUES
                   ('priority', 0, 99, true), ('attempts', 1, 1000000, true), ('delay', 0, 99999999999, false),
                   ('retry_delay', 0, 99999999999, false), ('timeout', 0.000001, 99999999999, false),
                   ('expires', 0, 99999999999, false), ('unique_for', 0, 99999999999, false),
                   ('at_most', 0, 99999999999, false))
                   AS b (name, least, most, whole)) AS o
         WHERE o.value <> 'null' AND NOT headgate._is_number(o.value, o.least, o.most, o.whole) LIMIT 1),
        CASE WHEN p_options ->> 'delay' IS NOT NULL AND p_options ->> 'at' IS NOT NULL
                 THEN 'delay and at exclude each other: give one of them'
             WHEN p_options ->> 'queue' = 'headgate' THEN 'queue "headgate" is reserved for Headgate''s own jobs'
             WHEN p_options ->> 'on_conflict' NOT IN ('return', 'raise', 'replace', 'update')
                 THEN format('on_conflict must be return, raise, replace or update, not %s', p_options -> 'on_conflict')
             WHEN p_options ->> 'unique' IS NULL
                     AND coalesce(p_options ->> 'unique_for', p_options ->> 'at_most') IS NOT NULL
                 THEN 'unique_for and at_most are for jobs with a unique key: give unique, too'
             WHEN jsonb_typeof(p_options -> 'metadata') NOT IN ('object', 'null')
                 THEN format('metadata must be a JSON object, not %s', p_options -> 'metadata')
             WHEN jsonb_typeof(p_options -> 'headers') NOT IN ('object', 'null')
                 THEN format('headers must be a JSON object of texts such as {"correlation-id": "a1"}, not %s',
                             p_options -> 'headers')
             WHEN octet_length(p_options ->> 'headers') > 8192
                 THEN format('the headers have %s bytes; all headers of a job together have at most 8192',
                             octet_length(p_options ->> 'headers'))
             WHEN jsonb_typeof(p_options -> 'limits') NOT IN ('array', 'null')
                 THEN format('limits must be a list such as [{"name": "customer", "key": "42"}], not %s',
                             p_options -> 'limits') END,
        (SELECT CASE WHEN jsonb_typeof(h.value) <> 'string'
                         THEN format('the value of header "%s" is %s, not a text', left(h.name, 80), h.value)
                     ELSE format('"%s" is not the name of a header: letters, digits, ".", "_" and "-", at most 128',
                                 left(h.name, 80)) END
         FROM jsonb_each(CASE WHEN jsonb_typeof(p_options -> 'headers') = 'object' THEN p_options -> 'headers' END)
             AS h (name, value)
         WHERE jsonb_typeof(h.value) <> 'string' OR h.name !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$' LIMIT 1),
        (SELECT format('the job would have %s headers; at most 64 are allowed', count(*))
         FROM jsonb_object_keys(CASE WHEN jsonb_typeof(p_options -> 'headers') = 'object' THEN p_options -> 'headers'
                                END) AS h HAVING count(*) > 64),
        (SELECT format('a limit is written as {"name": "customer", "key": "42"}, with "units" for a rate or a '
                       'limit with sizes, "max" for the number of this key, and "tenant" for another tenant than the job''s, '
                       'not as %s', u)
         FROM jsonb_array_elements(nullif(p_options -> 'limits', 'null')) AS u
         WHERE CASE WHEN jsonb_typeof(u) <> 'object' THEN true
                    ELSE coalesce(jsonb_typeof(u -> 'name') <> 'string' OR u ->> 'name' = '', true)
                         OR u - '{name,key,units,max,tenant}'::text[] <> '{}'
                         OR jsonb_typeof(u -> 'key') NOT IN ('string', 'number', 'null')
                         OR jsonb_typeof(u -> 'tenant') NOT IN ('string', 'null')
                         OR NOT headgate._is_number(coalesce(u -> 'units', '1'), 1, 1000000000, true)
                         OR NOT headgate._is_number(coalesce(nullif(u -> 'max', 'null'), '0'), 0, 1000000000, true) END
         LIMIT 1),
        CASE WHEN strpos(p_task, '=') > 0 THEN format('task name "%s" contains "=", which separates a limit''s name '
                                                      'from its key', p_task)
             WHEN octet_length(p_task) > 251 THEN format('task name "%s…" has %s bytes; at most 251 are allowed',
                                                         left(p_task, 40), octet_length(p_task)) END,
        (SELECT CASE WHEN strpos(u ->> 'name', '=') > 0
                         THEN format('limit name "%s" contains "=", which separates a limit''s name from its key',
                                     u ->> 'name')
                     WHEN octet_length(u ->> 'tenant') > 256
                         THEN format('the tenant of limit "%s" has %s bytes; at most 256 are allowed', u ->> 'name',
                                     octet_length(u ->> 'tenant'))
                     ELSE format('limit key "%s…" has %s bytes; at most 256 are allowed', left(k.text, 40),
                                 octet_length(k.text)) END
         FROM jsonb_array_elements(nullif(p_options -> 'limits', 'null')) AS u
         CROSS JOIN LATERAL (SELECT concat_ws('=', u ->> 'name', u ->> 'key') AS text) AS k
         WHERE strpos(u ->> 'name', '=') > 0 OR octet_length(k.text) > 256 OR octet_length(u ->> 'tenant') > 256
         LIMIT 1),
        (SELECT format('the job would have %s limits; at most 16 are allowed', count(*)) FROM (
             SELECT DISTINCT u ->> 'name', u ->> 'key', coalesce(u ->> 'tenant', p_options ->> 'tenant')
             FROM jsonb_array_elements(nullif(p_options -> 'limits', 'null')) AS u) AS d HAVING count(*) > 16));
END $$;

CREATE OR REPLACE FUNCTION headgate._is_number(p_value jsonb, p_least numeric, p_most numeric, p_whole boolean)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(p_value) <> 'number' THEN false
                ELSE p_value::numeric BETWEEN p_least AND p_most AND NOT (p_whole AND p_value::numeric % 1 <> 0) END
$$;

-- For any client in any language, inside its own transaction: SELECT headgate.enqueue('send', '{"to": "a@b.c"}');
-- The job is invisible until that transaction commits and gone if it rolls back. No limit is locked.
-- p_options   queue, tenant, priority (0-99), delay (seconds), at (timestamp with time zone), id, unique, on_conflict
--             (return, raise, replace, update), at_most (seconds: how long updates can put off its start), unique_for
--             (seconds after its start for which its unique key stays taken), expires (seconds within which it must
--             start), share, metadata, headers, timeout (seconds), attempts, retry_delay (seconds), and
--             limits: [{"name": "customer", "key": "42", "units": 1, "max": 5, "tenant": ""}], which must be declared;
--             max is the number that the job brings for this key.
-- Returns the id of the job, or of the unfinished one with the same unique key.
CREATE OR REPLACE FUNCTION headgate.enqueue(p_task text, p_args json DEFAULT '{}', p_options jsonb DEFAULT '{}')
    RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    v_wrong  text := headgate._wrong_with(p_task, p_args, p_options);
    v_id     text := coalesce(p_options ->> 'id', replace(gen_random_uuid()::text, '-', ''));
    v_tenant text := coalesce(p_options ->> 'tenant', '');
    v_keys   text[];
    v_units  bigint[];
    v_names  text[];
    v_rates  boolean[];
    v_numbers bigint[];
    v_unsized text;
    v_more   json;
    r        record;
BEGIN
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(k.key ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.units ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.name), array_agg(k.rate),
           array_agg(k.number ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           (SELECT x.name FROM unnest(array_agg(k.name) FILTER (WHERE NOT k.rate AND k.units <> 1)) AS x (name)
            LEFT JOIN headgate.limits l ON l.name = x.name WHERE l.sized IS NOT TRUE LIMIT 1)
    INTO v_keys, v_units, v_names, v_rates, v_numbers, v_unsized
    FROM (
        SELECT t.name, t.rate, t.text, t.tenant, max(t.units) AS units, min(t.number) AS number,
               CASE WHEN t.rate THEN 'r' ELSE 'c' END || length(t.tenant) || ':' || t.tenant || t.text AS key
        FROM (
            SELECT u ->> 'name' AS name, coalesce((u ->> 'units')::bigint, 1) AS units,
                   (u ->> 'max')::bigint AS number,
                   coalesce(u ->> 'tenant', v_tenant) AS tenant,
                   coalesce((SELECT l.kind = 'rate' FROM headgate.limits l WHERE l.name = u ->> 'name'), false) AS rate,
                   (u ->> 'name') || coalesce('=' || (u ->> 'key'), '') AS text
            FROM jsonb_array_elements(nullif(p_options -> 'limits', 'null')) AS u
        ) AS t GROUP BY t.name, t.rate, t.text, t.tenant
    ) AS k;
    IF v_unsized IS NOT NULL THEN
        RAISE EXCEPTION 'a job takes one slot of limit "%"; units are for rates, and for limits that are declared with sizes',
            v_unsized USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_options ?| '{share,expires,unique_for,at_most}' OR cardinality(array_remove(v_numbers, NULL)) > 0 THEN
        v_more := json_build_object(
            'numbers', CASE WHEN cardinality(array_remove(v_numbers, NULL)) > 0 THEN to_json(v_numbers) END,
            'jobs', json_build_array(json_build_object(
                'share', p_options ->> 'share',
                'start_within', round((p_options ->> 'expires')::numeric * 1000000)::bigint,
                'at_most', round((p_options ->> 'at_most')::numeric * 1000000)::bigint,
                'unique_for', round((p_options ->> 'unique_for')::numeric * 1000000)::bigint)));
    END IF;
    SELECT * INTO r FROM headgate._enqueue(
        p_ids => ARRAY[v_id], p_tasks => ARRAY[p_task], p_queues => ARRAY[coalesce(p_options ->> 'queue', 'default')],
        p_args => ARRAY[p_args::text], p_tenants => ARRAY[v_tenant],
        p_priorities => ARRAY[coalesce((p_options ->> 'priority')::smallint, 50::smallint)],
        p_delays => ARRAY[round(coalesce((p_options ->> 'delay')::numeric, 0) * 1000000)::bigint],
        p_ats => ARRAY[(extract(epoch FROM (p_options ->> 'at')::timestamptz) * 1000000)::bigint],
        p_retries => ARRAY[format('[%s,%s,2.0,3600000000,0.0]', coalesce((p_options ->> 'attempts')::integer, 3),
                                  round(coalesce((p_options ->> 'retry_delay')::numeric, 1) * 1000000))],
        p_timeouts => ARRAY[round((p_options ->> 'timeout')::numeric * 1000000)::bigint],
        p_uniques => ARRAY[p_options ->> 'unique'],
        p_conflicts => ARRAY[coalesce(p_options ->> 'on_conflict', 'return')],
        p_metadatas => ARRAY[nullif(p_options -> 'metadata', 'null')::text],
        p_headers => ARRAY[nullif(nullif(p_options -> 'headers', 'null'), '{}')::text], p_retentions => ARRAY[NULL::bigint],
        p_use_jobs => array_fill(1, ARRAY[coalesce(cardinality(v_keys), 0)]), p_use_keys => coalesce(v_keys, '{}'),
        p_use_units => coalesce(v_units, '{}'), p_names => coalesce(v_names, '{}'), p_rates => coalesce(v_rates, '{}'),
        p_declared => NULL, p_now => NULL, p_ttl => 10000000,
        p_keep => ARRAY[86400000000, 1209600000000, 1209600000000], p_by => NULL, p_notify => true,
        p_more => v_more);
    IF r.problem IN ('undeclared', 'kind') THEN
        RAISE EXCEPTION 'limit "%" is not declared; declare it in the app that runs the task', r.subject
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF r.problem = 'full' THEN
        RAISE EXCEPTION '% jobs wait for "%" already, as many as may; nothing was enqueued', r.detail,
            headgate._text(r.subject) USING ERRCODE = 'configuration_limit_exceeded';
    ELSIF r.problem IN ('started', 'task') THEN
        RAISE EXCEPTION 'job "%" with unique key "%" %', r.subject, p_options ->> 'unique',
            CASE WHEN r.problem = 'started' THEN 'has started already' ELSE 'is of another task' END
            USING ERRCODE = 'unique_violation';
    ELSIF r.problem = 'rival' THEN
        RAISE EXCEPTION 'job "%" with unique key "%" is %', r.subject, p_options ->> 'unique',
            split_part(r.detail, ' ', 1) USING ERRCODE = 'unique_violation';
    ELSIF r.problem IS NOT NULL THEN
        RAISE EXCEPTION 'job "%" exists already; nothing was enqueued', r.subject USING ERRCODE = 'unique_violation';
    END IF;
    RETURN coalesce(r.rivals[1], v_id);
END $$;
