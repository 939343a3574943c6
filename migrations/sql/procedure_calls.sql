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
    known := ARRAY(SELECT d.name FROM snaptide.destination d ORDER BY d.name);
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
    DO UPDATE SET order_no = NULL
    WHERE t.order_no IS NOT NULL AND t.start_time = now();
END
$$;

-- Others than the owner are let in by `snaptide site init --grants`.
REVOKE EXECUTE ON FUNCTION snaptide.defer_call(text, text[], jsonb, boolean) FROM PUBLIC;

-- Also calls of procedures.
CREATE OR REPLACE VIEW snaptide.deferror AS
SELECT e.id AS error_id,
       e.origin_transaction AS deferred_tran_id,
       e.origin AS deferred_tran_db,
       s.name AS destination,
       e.origin_user,
       e.start_time,
       e.parked_at,
       e.reason,
       e.error_code AS error_number,
       e.error_message AS error_msg,
       e.waits_for,
       (SELECT count(*) FROM snaptide.error_call c WHERE c.error_id = e.id)
       + (SELECT count(*) FROM snaptide.error_procedure p WHERE p.error_id = e.id) AS calls
FROM snaptide.error_transaction e CROSS JOIN snaptide.site_identity s;
