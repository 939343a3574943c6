-- Gives the calls that the current transaction has captured after a call number, from
-- all queues and at most as many as asked for. Values are text, printed alike in every
-- session. Only roles of ours get any: other users may have changed rows that they are
-- not allowed to read.
-- Parameters: after, the last call number seen; most, how many calls.
CREATE OR REPLACE FUNCTION {function}(after bigint, most integer)
RETURNS TABLE (queue_id integer, call_no bigint, kind text,
               old_values text[], new_values text[], synchronous boolean, xid xid8)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres' SET timezone = 'UTC' SET extra_float_digits = 3
SET bytea_output = 'hex' SET lc_monetary = 'C' SET xmloption = 'content'
AS $snaptide$
#variable_conflict use_column
DECLARE
    mine xid8 := pg_current_xact_id_if_assigned();
BEGIN
    IF mine IS NOT NULL AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
        RETURN QUERY SELECT c.queue_id, c.call_no, c.kind, c.old_values, c.new_values,
                            c.synchronous, mine
                     FROM ({calls}) c LIMIT most;
    END IF;
END
$snaptide$
