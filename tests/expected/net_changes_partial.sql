WITH calls AS NOT MATERIALIZED
(SELECT transactions.order_no AS tran, snaptide.def$_orders.call_no AS call_no, upper(CAST(snaptide.def$_orders.kind AS TEXT)) AS kind, snaptide.def$_orders.moved AS moved, coalesce(snaptide.def$_orders.o1, snaptide.def$_orders.n1) AS k1, snaptide.def$_orders.o1 AS o1, snaptide.def$_orders.o2 AS o2, snaptide.def$_orders.o3 AS o3, snaptide.def$_orders.o4 AS o4, snaptide.def$_orders.n1 AS n1, snaptide.def$_orders.n2 AS n2, snaptide.def$_orders.n3 AS n3, snaptide.def$_orders.n4 AS n4
FROM snaptide.def$_orders JOIN transactions ON transactions.xid = snaptide.def$_orders.xid
WHERE snaptide.def$_orders.xid = any(array((SELECT transactions.xid
FROM transactions)))),
repeated AS
(SELECT anon_2.call_no AS call_no
FROM (SELECT calls.call_no AS call_no, count(*) OVER (PARTITION BY calls.tran, calls.k1) AS times
FROM calls) AS anon_2
WHERE anon_2.times > 1
    AND (EXISTS (SELECT calls.tran
FROM calls
    GROUP BY calls.tran,
    calls.k1
HAVING count(*) > 1))),
many AS
(SELECT calls.tran AS tran, calls.call_no AS call_no, calls.kind AS kind, calls.moved AS moved, calls.k1 AS k1, calls.o1 AS o1, calls.o2 AS o2, calls.o3 AS o3, calls.o4 AS o4, calls.n1 AS n1, calls.n2 AS n2, calls.n3 AS n3, calls.n4 AS n4, count(*) OVER (PARTITION BY calls.k1, calls.tran) AS steps, min(calls.call_no) OVER (PARTITION BY calls.k1, calls.tran) AS first_no
FROM calls JOIN repeated ON calls.call_no = repeated.call_no)
 SELECT anon_1.tran AS unit,
    anon_1.tran,
    false AS several,
    anon_1.call_no,
    anon_1.kind,
    anon_1.o1,
    anon_1.o2,
    anon_1.o3,
    anon_1.o4,
    anon_1.n1,
    anon_1.n2,
    anon_1.n3,
    anon_1.n4
FROM (SELECT calls.tran AS tran, calls.call_no AS call_no, calls.kind AS kind, calls.k1 AS k1, calls.o1 AS o1, calls.o2 AS o2, calls.o3 AS o3, calls.o4 AS o4, calls.n1 AS n1, calls.n2 AS n2, calls.n3 AS n3, calls.n4 AS n4
FROM calls
WHERE NOT (EXISTS (SELECT repeated.call_no
FROM repeated
WHERE calls.call_no = repeated.call_no)) UNION ALL SELECT anon_3.tran AS tran, anon_3.call_no AS call_no, anon_3.kind AS kind, anon_3.k1 AS k1, anon_3.o1 AS o1, anon_3.o2 AS o2, anon_3.o3 AS o3, anon_3.o4 AS o4, anon_3.n1 AS n1, anon_3.n2 AS n2, anon_3.n3 AS n3, anon_3.n4 AS n4
FROM (SELECT anon_4.tran AS tran, anon_4.call_no AS call_no, anon_4.kind AS kind, anon_4.o1 AS o1, anon_4.o2 AS o2, anon_4.o3 AS o3, anon_4.o4 AS o4, coalesce(anon_4.n1, CASE WHEN (anon_4.kind = 'X') THEN anon_4.k1 END) AS n1, anon_4.n2 AS n2, anon_4.n3 AS n3, anon_4.n4 AS n4, anon_4.k1 AS k1
FROM (SELECT anon_5.tran AS tran, coalesce(anon_6.end_no, anon_5.first_no) AS call_no, CASE WHEN (anon_6.left_over > 2) THEN 'X' WHEN (anon_6.left_over IS NULL AND anon_5.first_insert = anon_5.first_no) THEN 'N' WHEN (anon_6.left_over IS NULL) THEN NULL WHEN (start_call.kind = 'I') THEN 'I' WHEN (end_call.kind = 'D') THEN 'D' WHEN false THEN 'R' ELSE 'U' END AS kind, start_call.o1 AS o1, start_call.o2 AS o2, start_call.o3 AS o3, start_call.o4 AS o4, end_call.n1 AS n1, end_call.n2 AS n2, end_call.n3 AS n3, end_call.n4 AS n4, anon_5.k1 AS k1
FROM (SELECT many.first_no AS first_no, many.tran AS tran, many.k1 AS k1, min(many.call_no) FILTER (WHERE many.kind = 'I') AS first_insert, bool_or(many.kind = 'D' AND NOT many.moved) AS dropped
FROM many
WHERE many.steps > 1
    GROUP BY many.first_no,
    many.tran,
    many.k1) AS anon_5 LEFT OUTER JOIN (SELECT anon_7.first_no AS first_no,
    max(anon_7.start_no) FILTER (WHERE anon_7.weight > 0) AS start_no,
    max(anon_7.end_no) FILTER (WHERE anon_7.weight < 0) AS end_no,
    sum(abs(anon_7.weight)) AS left_over
FROM (SELECT anon_8.first_no AS first_no, sum(anon_8.weight) AS weight, min(anon_8.call_no) FILTER (WHERE anon_8.weight > 0) AS start_no, min(anon_8.call_no) FILTER (WHERE anon_8.weight < 0) AS end_no
FROM (SELECT many.first_no AS first_no, many.call_no AS call_no, 1 AS weight, CASE WHEN ((many.kind NOT IN ('I'))) THEN CAST(row(many.o1, many.o2, many.o3, many.o4) AS TEXT) END AS image
FROM many
WHERE many.steps > 1 UNION ALL SELECT many.first_no AS first_no,
    many.call_no AS call_no,
    -1 AS weight,
    CASE WHEN ((many.kind NOT IN ('D'))) THEN CAST(row(many.n1, many.n2, many.n3, many.n4) AS TEXT) END AS image
FROM many
WHERE many.steps > 1) AS anon_8 GROUP BY anon_8.first_no, anon_8.image
HAVING sum(anon_8.weight) != 0) AS anon_7 GROUP BY anon_7.first_no) AS anon_6 ON anon_5.first_no = anon_6.first_no LEFT OUTER JOIN many AS start_call ON start_call.call_no = anon_6.start_no LEFT OUTER JOIN many AS end_call ON end_call.call_no = coalesce(anon_6.end_no, CASE WHEN (anon_6.left_over IS NULL) THEN anon_5.first_insert END)) AS anon_4
WHERE anon_4.kind IS NOT NULL) AS anon_3) AS anon_1
