-- An argument of a call: its type by its full name, and its value as every session
-- prints it; format() prints what a cast to text would cut, the blanks of char(n).
CREATE FUNCTION snaptide.argument(value anyelement) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres' SET timezone = 'UTC' SET extra_float_digits = 3
SET bytea_output = 'hex' SET lc_monetary = 'C' SET xmloption = 'content'
AS $$
BEGIN
    RETURN jsonb_build_object('type', format_type(pg_typeof(value), NULL),
                              'value', CASE num_nulls(value) WHEN 0 THEN format('%s', value) END);
END
$$;

-- Queues the call of a procedure in the current transaction, in its place among the
-- row changes, which triggers number.
-- Parameters: name, what destinations know it by; wanted, where it is to run, NULL for
-- all destinations of this site; arguments, as snaptide.argument makes them;
-- ran_here, whether the site runs it too.
-- Returns: the number of the call, NULL where wanted holds no destination, a doubled or
-- an unknown one; and the destinations that there are.
-- Raises: invalid_parameter_value where arguments are none that destinations can read.
-- Tables directly manipulated: procedure_call, deferred_transaction.
CREATE FUNCTION snaptide.defer_call(
    name text, wanted text[], arguments jsonb, ran_here boolean,
    OUT call_no bigint, OUT known text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    xact xid8 := pg_current_xact_id();
BEGIN
    IF current_setting('snaptide.coordinated', true) = 'site' THEN
        RAISE EXCEPTION 'A coordinated transaction cannot defer the call of a procedure'
            USING HINT = 'Call it in a transaction of its own.',
                  ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF current_setting('snaptide.call', true) <> '' THEN
        RAISE EXCEPTION 'A procedure that was called here cannot defer a call itself'
            USING HINT = 'Destinations run it too, and would make the call again.',
                  ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF jsonb_typeof(arguments) IS DISTINCT FROM 'array'
       OR jsonb_array_length(arguments) > 1000  -- as deferred.procedure_call.MOST
       OR EXISTS (
           SELECT FROM jsonb_array_elements(arguments) AS one (argument)
           WHERE argument <> jsonb_build_object('type', argument ->> 'type',
                                                'value', argument ->> 'value')) THEN
        RAISE EXCEPTION 'A call needs an array of arguments, each with type and value'
            USING HINT = 'Make each of them with snaptide.argument(value).',
                  ERRCODE = 'invalid_parameter_value';
    END IF;
    -- One that only other masters send to would have what it changes there twice.
    known := ARRAY(SELECT DISTINCT r.destination FROM snaptide.route r
                   WHERE r.source = '' ORDER BY 1);
    wanted := COALESCE(wanted, known);
    IF wanted = '{}' OR NOT wanted <@ known
       OR cardinality(wanted) > (SELECT count(DISTINCT w) FROM unnest(wanted) w) THEN
        RETURN;
    END IF;
    call_no := nextval('snaptide.order_no');
    INSERT INTO snaptide.procedure_call
    VALUES (call_no, xact, name, wanted, arguments, ran_here);
    INSERT INTO snaptide.deferred_transaction AS t (xid, origin_user)
    VALUES (xact, session_user) ON CONFLICT (xid)
    DO UPDATE SET order_no = NULL, start_time = now()
    WHERE t.order_no IS NOT NULL AND t.start_time = now();
END
$$;
REVOKE EXECUTE ON FUNCTION snaptide.defer_call(text, text[], jsonb, boolean) FROM PUBLIC;
