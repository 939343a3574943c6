-- What makes changes of a table reach rows that no policy of it binds: one text for each.
SELECT 'foreign key ' || quote_ident(k.conname) || ' of ' || k.conrelid::regclass::text
       || ' changes rows that refer to it (ON DELETE or ON UPDATE), whoever may see these'
FROM pg_constraint k
WHERE k.contype = 'f' AND k.confrelid = :oid
  AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))
UNION ALL
SELECT 'rule ' || quote_ident(r.rulename) || ' runs with the rights of its owner'
FROM pg_rewrite r WHERE r.ev_class = :oid
UNION ALL
-- A site could put temporary tables of its own in the place of those that it names.
SELECT 'trigger ' || quote_ident(t.tgname) || ' runs with the rights of its owner, and its function '
       'finds temporary tables first (ALTER FUNCTION ' || p.oid::regprocedure::text
       || ' SET search_path = pg_catalog, pg_temp)'
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = :oid AND p.prosecdef
  AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS its (setting)
                  WHERE its.setting ~ '^search_path=.*, *"?pg_temp"?$')
UNION ALL
SELECT 'trigger ' || quote_ident(t.tgname) || ' queues its changes for another master, or refuses them'
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = :oid AND p.pronamespace = 'snaptide'::regnamespace
  AND p.proname NOT LIKE 'mlog$%'
