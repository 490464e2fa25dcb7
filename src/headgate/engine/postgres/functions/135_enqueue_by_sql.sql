-- For any client in any language, inside its own transaction: SELECT headgate.enqueue('send', '{"to": "a@b.c"}');
-- The job is invisible until that transaction commits and gone if it rolls back. No limit is locked.
-- p_options   queue, tenant, priority (0-99), delay (seconds), at (timestamp with time zone), id, unique, on_conflict
--             (return, raise, replace), metadata, timeout (seconds), attempts, retry_delay (seconds), and
--             limits: [{"name": "customer", "key": "42", "units": 1, "tenant": ""}], which must be declared.
-- Returns the id of the job, or of the unfinished one with the same unique key.
CREATE OR REPLACE FUNCTION headgate.enqueue(p_task text, p_args json DEFAULT '{}', p_options jsonb DEFAULT '{}')
    RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    v_id     text := coalesce(p_options ->> 'id', replace(gen_random_uuid()::text, '-', ''));
    v_tenant text := coalesce(p_options ->> 'tenant', '');
    v_keys   text[];
    v_units  bigint[];
    v_names  text[];
    v_rates  boolean[];
    v_wrong  text;
    r        record;
BEGIN
    SELECT string_agg(o.name, ', ') INTO v_wrong FROM jsonb_object_keys(p_options) AS o (name)
    WHERE o.name NOT IN ('queue', 'tenant', 'priority', 'delay', 'at', 'id', 'unique', 'on_conflict', 'metadata',
        'timeout',
                         'attempts', 'retry_delay', 'limits');
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'unknown options: %', v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF coalesce((p_options ->> 'priority')::integer, 50) NOT BETWEEN 0 AND 99 THEN
        RAISE EXCEPTION 'priority % is not between 0 (first) and 99', p_options ->> 'priority'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(k.key ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.units ORDER BY k.rate, k.text COLLATE "C", k.tenant COLLATE "C"),
           array_agg(k.name), array_agg(k.rate)
    INTO v_keys, v_units, v_names, v_rates
    FROM (
        SELECT t.name, t.rate, t.text, t.tenant, max(t.units) AS units,
               CASE WHEN t.rate THEN 'r' ELSE 'c' END || length(t.tenant) || ':' || t.tenant || t.text AS key
        FROM (
            SELECT u ->> 'name' AS name, coalesce((u ->> 'units')::bigint, 1) AS units, coalesce(u ->> 'tenant',
                v_tenant) AS tenant,
                   coalesce((SELECT l.kind = 'rate' FROM headgate.limits l WHERE l.name = u ->> 'name'), false) AS rate,
                   (u ->> 'name') || coalesce('=' || (u ->> 'key'), '') AS text
            FROM jsonb_array_elements(coalesce(p_options -> 'limits', '[]')) AS u
        ) AS t GROUP BY t.name, t.rate, t.text, t.tenant
    ) AS k;
    SELECT * INTO r FROM headgate._enqueue(
        ARRAY[v_id], ARRAY[p_task], ARRAY[coalesce(p_options ->> 'queue', 'default')], ARRAY[p_args::text],
            ARRAY[v_tenant],
        ARRAY[coalesce((p_options ->> 'priority')::smallint, 50::smallint)],
        ARRAY[round(coalesce((p_options ->> 'delay')::numeric, 0) * 1000000)::bigint],
        ARRAY[(extract(epoch FROM (p_options ->> 'at')::timestamptz) * 1000000)::bigint],
        ARRAY[format('[%s,%s,2.0,3600000000,0.0]', coalesce((p_options ->> 'attempts')::integer, 3),
                     round(coalesce((p_options ->> 'retry_delay')::numeric, 1) * 1000000))],
        ARRAY[round((p_options ->> 'timeout')::numeric * 1000000)::bigint], ARRAY[p_options ->> 'unique'],
        ARRAY[coalesce(p_options ->> 'on_conflict', 'return')], ARRAY[(p_options -> 'metadata')::text],
            ARRAY[NULL::bigint],
        array_fill(1, ARRAY[coalesce(cardinality(v_keys), 0)]), coalesce(v_keys, '{}'), coalesce(v_units, '{}'),
        coalesce(v_names, '{}'), coalesce(v_rates, '{}'), NULL, NULL, 10000000, ARRAY[86400000000, 1209600000000,
            1209600000000],
        NULL, true);
    IF r.problem IN ('undeclared', 'kind') THEN
        RAISE EXCEPTION 'limit "%" is not declared; declare it in the app that runs the task', r.subject
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF r.problem = 'rival' THEN
        RAISE EXCEPTION 'job "%" with unique key "%" is %', r.subject, p_options ->> 'unique',
            split_part(r.detail, ' ', 1) USING ERRCODE = 'unique_violation';
    ELSIF r.problem IS NOT NULL THEN
        RAISE EXCEPTION 'job "%" exists already; nothing was enqueued', r.subject USING ERRCODE = 'unique_violation';
    END IF;
    RETURN coalesce(r.rivals[1], v_id);
END $$;
