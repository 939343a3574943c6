(SELECT concat_ws(' | ', c.oid, c.relkind, c.relhasrules,
    (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod,
                                 a.attcollation, a.attgenerated, a.attidentity),
                       ', ' ORDER BY a.attnum)
     FROM pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    (SELECT string_agg(concat_ws(' ', i.indexrelid, i.indisvalid, i.indimmediate),
                       ', ' ORDER BY i.indexrelid)
     FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique),
    (SELECT string_agg(concat_ws(' ', t.oid, t.tgdeferrable), ', ' ORDER BY t.oid)
     FROM pg_trigger t
     WHERE t.tgconstraint <> 0 AND t.tgrelid = ANY (
         CASE c.relkind WHEN 'p'
         THEN ARRAY(SELECT p.relid FROM pg_partition_tree(c.oid) p)
         ELSE ARRAY[c.oid::regclass] END)))
 FROM pg_class c
 WHERE c.oid = {table})
