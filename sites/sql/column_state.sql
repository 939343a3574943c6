concat_ws(' ', a.attnum, a.atttypid, a.attcollation, CASE WHEN a.attgenerated <> '' THEN (
           SELECT pg_get_expr(e.adbin, e.adrelid) FROM pg_attrdef e
           WHERE e.adrelid = a.attrelid AND e.adnum = a.attnum) END)
