-- Triggers of users that may set a column of a row before it is updated, because their
-- functions name it; "asks": the function names something of ours, as a trigger does that
-- recognises changes of other sites.
SELECT t.tgname AS name, p.prosrc ~* 'snaptide' AS asks
FROM pg_trigger t
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass(:table) AND NOT t.tgisinternal AND t.tgenabled <> 'D'
  -- BEFORE, for each row, UPDATE.
  AND t.tgtype & 19 = 19
  AND (p.prosrc ILIKE '%' || replace(:column, '_', '\_') || '%'
       OR convert_from(t.tgargs, getdatabaseencoding()) ILIKE '%' || replace(:column, '_', '\_') || '%')
ORDER BY t.tgname
