UPDATE public.orders SET name=CASE WHEN (snaptide_work_1.o2 IS NOT DISTINCT FROM snaptide_work_1.n2) THEN public.orders.name ELSE snaptide_work_1.n2 END,
    price=CASE WHEN (CAST(row(snaptide_work_1.o3) AS record) *= CAST(row(snaptide_work_1.n3) AS record)) THEN public.orders.price ELSE snaptide_work_1.n3 END,
    doc=CASE WHEN (CAST(row(snaptide_work_1.o4) AS record) *= CAST(row(snaptide_work_1.n4) AS record)) THEN public.orders.doc ELSE snaptide_work_1.n4 END
    FROM snaptide_work_1
    WHERE snaptide_work_1.unit = 7
    AND snaptide_work_1.kind IN ('U')
    AND public.orders.id = CASE WHEN (snaptide_work_1.o1 IS NULL) THEN snaptide_work_1.n1 ELSE snaptide_work_1.o1 END
