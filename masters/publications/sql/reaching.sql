-- What makes changes of a table reach rows that no policy of it binds: one text for each.
WITH misled AS (
    -- Functions that run with the rights of their owner, and for which a site could put
    -- temporary tables of its own in the place of those that they name.
    SELECT p.oid, p.oid::regprocedure::text AS called FROM pg_proc p
    WHERE p.prosecdef
      AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS its (setting)
                      WHERE its.setting ~ '^search_path=.*, *"?pg_temp"?$')
)
SELECT 'foreign key ' || quote_ident(k.conname) || ' of ' || k.conrelid::regclass::text
       || ' changes rows that refer to it (ON DELETE or ON UPDATE), whoever may see these'
FROM pg_constraint k
WHERE k.contype = 'f' AND k.confrelid = :oid
  AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))
UNION ALL
SELECT 'rule ' || quote_ident(r.rulename) || ' runs with the rights of its owner'
FROM pg_rewrite r WHERE r.ev_class = :oid
UNION ALL
SELECT 'trigger ' || quote_ident(t.tgname) || ' runs with the rights of its owner, and its function '
       'finds temporary tables first (ALTER FUNCTION ' || m.called
       || ' SET search_path = pg_catalog, pg_temp)'
FROM pg_trigger t JOIN misled m ON m.oid = t.tgfoid
WHERE t.tgrelid = :oid
UNION ALL
-- A default or check calls its function also where the schema of that cannot be used.
SELECT DISTINCT 'function ' || m.called || ', which a default, check or index calls, runs with the '
       'rights of its owner, and finds temporary tables first (ALTER FUNCTION ' || m.called
       || ' SET search_path = pg_catalog, pg_temp)'
FROM pg_depend d JOIN misled m ON m.oid = d.refobjid AND d.refclassid = 'pg_proc'::regclass
WHERE (d.classid, d.objid) IN (
    SELECT 'pg_attrdef'::regclass::oid, a.oid FROM pg_attrdef a WHERE a.adrelid = :oid
    UNION ALL
    SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.conrelid = :oid
    UNION ALL
    SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = :oid
)
UNION ALL
SELECT 'trigger ' || quote_ident(t.tgname) || ' queues its changes for another master, or refuses them'
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = :oid AND p.pronamespace = 'snaptide'::regnamespace
  AND p.proname NOT LIKE 'mlog$%'
