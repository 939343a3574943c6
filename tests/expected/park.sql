UPDATE public.orders SET name=NULL
    FROM (SELECT public.orders.id AS k1, row_number() OVER () AS place
FROM public.orders,
    snaptide_work_1 AS giver,
    snaptide_work_1 AS taker
WHERE giver.unit = 7
    AND taker.unit = 7
    AND public.orders.id = CASE WHEN (giver.o1 IS NULL) THEN giver.n1 ELSE giver.o1 END
    AND (giver.kind IN ('D', 'R', 'L') OR giver.kind IN ('U', 'M') AND CASE WHEN (giver.o2 IS NOT DISTINCT FROM giver.n2) THEN public.orders.name ELSE giver.n2 END IS DISTINCT FROM public.orders.name)
    AND taker.kind IN ('I', 'U', 'M', 'R')
    AND public.orders.name = taker.n2
    AND public.orders.id != CASE WHEN (taker.o1 IS NULL) THEN taker.n1 ELSE taker.o1 END
    GROUP BY public.orders.id) AS held WHERE public.orders.id = held.k1
