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
