-- Lets nobody but the owners of tables make triggers that call functions of ours. Every user
-- may by default, also on a temporary table of their own, and those that run with the rights of
-- their owner would write what is in there. Functions of other owners stay as they are.
DO $$
DECLARE
    made record;
    owner name;
BEGIN
    FOR made IN
        SELECT p.oid, p.oid::regprocedure AS called FROM pg_proc p
        WHERE p.pronamespace = 'snaptide'::regnamespace AND p.prosecdef
          AND p.prorettype = 'trigger'::regtype AND pg_has_role(p.proowner, 'USAGE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', made.called);
        FOR owner IN
            SELECT DISTINCT pg_get_userbyid(c.relowner)
            FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE t.tgfoid = made.oid
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', made.called, owner);
        END LOOP;
    END LOOP;
END
$$;
