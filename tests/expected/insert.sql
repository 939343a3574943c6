INSERT INTO public.orders (id, name, price, doc) SELECT snaptide_work_1.n1,
    snaptide_work_1.n2,
    snaptide_work_1.n3,
    snaptide_work_1.n4
FROM snaptide_work_1
WHERE snaptide_work_1.unit = 7
    AND snaptide_work_1.kind IN ('I', 'R')
