SELECT CAST(array_agg(found.call_no) AS TEXT) AS call_nos,
    found.tran,
    found.several,
    found.kind,
    found.missing,
    found.more,
    found.g0,
    found.g1,
    found.deleted_at,
    found.another,
    found.changes,
    any_value(CASE WHEN (found.missing OR found.g1 OR found.kind != 'U') THEN found.old0 END) AS old0,
    any_value(CASE WHEN (found.missing OR found.g0 OR found.kind != 'U') THEN found.old1 END) AS old1,
    any_value(CASE WHEN (found.missing OR found.g1 OR found.kind != 'U') THEN found.new0 END) AS new0,
    any_value(CASE WHEN (found.missing OR found.g0 OR found.kind != 'U') THEN found.new1 END) AS new1,
    any_value(CASE WHEN (found.missing OR found.g1 OR found.kind != 'U') THEN found.cur0 END) AS cur0,
    any_value(CASE WHEN (found.missing OR found.g0 OR found.kind != 'U') THEN found.cur1 END) AS cur1
FROM (SELECT snaptide_work_1.call_no AS call_no, FLOOR((row_number() OVER (ORDER BY snaptide_work_1.call_no) - 1) / 4000) AS chunk, snaptide_work_1.tran AS tran, snaptide_work_1.several AS several, snaptide_work_1.kind AS kind, public.orders.id IS NULL AS missing, snaptide_work_1.o3 IS NOT DISTINCT FROM public.orders.price AND NOT (CAST(row(snaptide_work_1.o3) AS record) *= CAST(row(snaptide_work_1.n3) AS record)) OR NOT (snaptide_work_1.o2 IS DISTINCT FROM public.orders.name OR CAST(snaptide_work_1.o4 AS TEXT) IS DISTINCT FROM CAST(public.orders.doc AS TEXT)) AND (snaptide_work_1.o2 IS DISTINCT FROM snaptide_work_1.n2 OR NOT (CAST(row(snaptide_work_1.o4) AS record) *= CAST(row(snaptide_work_1.n4) AS record))) AS more, snaptide_work_1.o3 IS DISTINCT FROM public.orders.price AND NOT (CAST(row(snaptide_work_1.o3) AS record) *= CAST(row(snaptide_work_1.n3) AS record)) AS g0, (snaptide_work_1.o2 IS DISTINCT FROM public.orders.name OR CAST(snaptide_work_1.o4 AS TEXT) IS DISTINCT FROM CAST(public.orders.doc AS TEXT)) AND (snaptide_work_1.o2 IS DISTINCT FROM snaptide_work_1.n2 OR NOT (CAST(row(snaptide_work_1.o4) AS record) *= CAST(row(snaptide_work_1.n4) AS record))) AS g1, NULL AS deleted_at, snaptide_work_1.kind IN ('M') AND (snaptide_work_1.o3 IS DISTINCT FROM public.orders.price AND (CAST(row(snaptide_work_1.o3) AS record) *= CAST(row(snaptide_work_1.n3) AS record)) OR (snaptide_work_1.o2 IS DISTINCT FROM public.orders.name OR CAST(snaptide_work_1.o4 AS TEXT) IS DISTINCT FROM CAST(public.orders.doc AS TEXT)) AND NOT (snaptide_work_1.o2 IS DISTINCT FROM snaptide_work_1.n2 OR NOT (CAST(row(snaptide_work_1.o4) AS record) *= CAST(row(snaptide_work_1.n4) AS record)))) AS another, CASE WHEN (snaptide_work_1.kind IN ('M')) THEN array_remove(ARRAY[CASE WHEN (snaptide_work_1.o1 IS DISTINCT FROM snaptide_work_1.n1) THEN 'id' END, CASE WHEN (snaptide_work_1.o2 IS DISTINCT FROM snaptide_work_1.n2) THEN 'name' END, CASE WHEN NOT (CAST(row(snaptide_work_1.o3) AS record) *= CAST(row(snaptide_work_1.n3) AS record)) THEN 'price' END, CASE WHEN NOT (CAST(row(snaptide_work_1.o4) AS record) *= CAST(row(snaptide_work_1.n4) AS record)) THEN 'doc' END], NULL) END AS changes, snaptide_work_1.o2 AS old0, snaptide_work_1.o3 AS old1, snaptide_work_1.n2 AS new0, snaptide_work_1.n3 AS new1, public.orders.name AS cur0, public.orders.price AS cur1
FROM snaptide_work_1 LEFT OUTER JOIN public.orders ON public.orders.id = CASE WHEN (snaptide_work_1.o1 IS NULL) THEN snaptide_work_1.n1 ELSE snaptide_work_1.o1 END
WHERE snaptide_work_1.unit = 7
    AND (snaptide_work_1.kind IN ('I', 'A') AND public.orders.id IS NOT NULL OR snaptide_work_1.kind IN ('N') AND public.orders.id IS NOT NULL AND NOT (snaptide_work_1.n1 IS NOT DISTINCT FROM public.orders.id AND snaptide_work_1.n2 IS NOT DISTINCT FROM public.orders.name AND snaptide_work_1.n3 IS NOT DISTINCT FROM public.orders.price AND CAST(snaptide_work_1.n4 AS TEXT) IS NOT DISTINCT FROM CAST(public.orders.doc AS TEXT)) OR snaptide_work_1.kind IN ('U', 'M', 'D', 'R', 'S') AND public.orders.id IS NULL OR snaptide_work_1.kind IN ('U', 'M') AND (snaptide_work_1.o3 IS DISTINCT FROM public.orders.price AND NOT (CAST(row(snaptide_work_1.o3) AS record) *= CAST(row(snaptide_work_1.n3) AS record)) OR (snaptide_work_1.o2 IS DISTINCT FROM public.orders.name OR CAST(snaptide_work_1.o4 AS TEXT) IS DISTINCT FROM CAST(public.orders.doc AS TEXT)) AND (snaptide_work_1.o2 IS DISTINCT FROM snaptide_work_1.n2 OR NOT (CAST(row(snaptide_work_1.o4) AS record) *= CAST(row(snaptide_work_1.n4) AS record)))) OR snaptide_work_1.kind IN ('D', 'R') AND (snaptide_work_1.o3 IS DISTINCT FROM public.orders.price OR snaptide_work_1.o2 IS DISTINCT FROM public.orders.name OR CAST(snaptide_work_1.o4 AS TEXT) IS DISTINCT FROM CAST(public.orders.doc AS TEXT)) OR snaptide_work_1.kind IN ('M') AND (snaptide_work_1.o3 IS DISTINCT FROM public.orders.price OR snaptide_work_1.o2 IS DISTINCT FROM public.orders.name OR CAST(snaptide_work_1.o4 AS TEXT) IS DISTINCT FROM CAST(public.orders.doc AS TEXT)) OR snaptide_work_1.several AND snaptide_work_1.kind IN ('U', 'M', 'D', 'R', 'S') AND (snaptide_work_1.o1 IS DISTINCT FROM public.orders.id OR snaptide_work_1.o2 IS DISTINCT FROM public.orders.name OR NOT (CAST(row(snaptide_work_1.o3) AS record) *= CAST(row(public.orders.price) AS record)) OR NOT (CAST(row(snaptide_work_1.o4) AS record) *= CAST(row(public.orders.doc) AS record))))
 LIMIT ALL OFFSET 0) AS found GROUP BY found.chunk, found.tran, found.several, found.kind, found.missing, found.more, found.g0, found.g1, found.deleted_at, found.another, found.changes, CASE WHEN (found.missing
    OR found.g1
    OR found.kind != 'U') THEN found.old0 END, CASE WHEN (found.missing
    OR found.g1
    OR found.kind != 'U') THEN found.new0 END, CASE WHEN (found.missing
    OR found.g1
    OR found.kind != 'U') THEN found.cur0 END, CASE WHEN (found.missing
    OR found.g0
    OR found.kind != 'U') THEN found.new1 END > CASE WHEN (found.missing
    OR found.g0
    OR found.kind != 'U') THEN found.cur1 END, CASE WHEN (found.missing
    OR found.g0
    OR found.kind != 'U') THEN found.new1 END < CASE WHEN (found.missing
    OR found.g0
    OR found.kind != 'U') THEN found.cur1 END, CASE WHEN (found.missing
    OR found.g0
    OR found.kind != 'U') THEN found.new1 END IS NULL, CASE WHEN (found.missing
    OR found.g0
    OR found.kind != 'U') THEN found.cur1 END IS NULL ORDER BY min(found.call_no)
