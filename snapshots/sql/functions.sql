-- How functions of some names are defined.
SELECT quote_ident(wanted.schema) || '.' || quote_ident(wanted.name) AS name,
       md5(string_agg(pg_get_functiondef(p.oid), '' ORDER BY p.oid)) AS definition
FROM unnest(CAST(:function_schemas AS text[]), CAST(:function_names AS text[]))
     AS wanted (schema, name)
JOIN pg_namespace n ON n.nspname = wanted.schema
JOIN pg_proc p ON p.pronamespace = n.oid AND p.proname = wanted.name AND p.prokind = 'f'
GROUP BY wanted.schema, wanted.name
