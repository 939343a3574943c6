DELETE
    FROM public.orders USING snaptide_work_1
    WHERE snaptide_work_1.unit = 7
    AND snaptide_work_1.kind IN ('D')
    AND public.orders.id = CASE WHEN (snaptide_work_1.o1 IS NULL) THEN snaptide_work_1.n1 ELSE snaptide_work_1.o1 END
