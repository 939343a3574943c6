WITH calls AS
(SELECT transactions.order_no AS unit, snaptide.def$_orders.call_no AS call_no, CAST(snaptide.def$_orders.kind AS TEXT) AS kind, snaptide.def$_orders.moved AS moved, coalesce(snaptide.def$_orders.o1, snaptide.def$_orders.n1) AS k1, snaptide.def$_orders.o1 AS o1, snaptide.def$_orders.o2 AS o2, snaptide.def$_orders.o3 AS o3, snaptide.def$_orders.o4 AS o4, snaptide.def$_orders.n1 AS n1, snaptide.def$_orders.n2 AS n2, snaptide.def$_orders.n3 AS n3, snaptide.def$_orders.n4 AS n4, count(*) OVER (PARTITION BY transactions.order_no, coalesce(snaptide.def$_orders.o1, snaptide.def$_orders.n1)) AS steps
FROM snaptide.def$_orders JOIN transactions ON transactions.xid = snaptide.def$_orders.xid)
 SELECT anon_1.unit,
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
FROM (SELECT calls.unit AS unit, calls.call_no AS call_no, calls.kind AS kind, calls.o1 AS o1, calls.o2 AS o2, calls.o3 AS o3, calls.o4 AS o4, calls.n1 AS n1, calls.n2 AS n2, calls.n3 AS n3, calls.n4 AS n4
FROM calls
WHERE calls.steps = 1 UNION ALL SELECT anon_2.unit AS unit,
    anon_2.call_no AS call_no,
    anon_2.kind AS kind,
    anon_2.o1 AS o1,
    anon_2.o2 AS o2,
    anon_2.o3 AS o3,
    anon_2.o4 AS o4,
    coalesce(anon_2.n1, CASE WHEN (anon_2.kind = 'X') THEN anon_2.row_k1 END) AS n1,
    anon_2.n2 AS n2,
    anon_2.n3 AS n3,
    anon_2.n4 AS n4
FROM (SELECT anon_3.unit AS unit, coalesce(anon_4.end_no, anon_3.first_no) AS call_no, CASE WHEN (anon_4.left_over > 2) THEN 'X' WHEN (anon_4.left_over IS NULL AND anon_3.first_insert = anon_3.first_no) THEN 'N' WHEN (anon_4.left_over IS NULL) THEN NULL WHEN (start_call.kind = 'I') THEN 'I' WHEN (end_call.kind = 'D') THEN 'D' WHEN anon_3.dropped THEN 'R' ELSE 'U' END AS kind, start_call.o1 AS o1, start_call.o2 AS o2, start_call.o3 AS o3, start_call.o4 AS o4, end_call.n1 AS n1, end_call.n2 AS n2, end_call.n3 AS n3, end_call.n4 AS n4, anon_3.k1 AS row_k1
FROM (SELECT calls.unit AS unit, calls.k1 AS k1, min(calls.call_no) AS first_no, min(calls.call_no) FILTER (WHERE calls.kind = 'I') AS first_insert, bool_or(calls.kind = 'D' AND NOT calls.moved) AS dropped
FROM calls
WHERE calls.steps > 1
    GROUP BY calls.unit,
    calls.k1) AS anon_3 LEFT OUTER JOIN (SELECT anon_5.unit AS unit,
    anon_5.k1 AS k1,
    max(anon_5.start_no) FILTER (WHERE anon_5.weight > 0) AS start_no,
    max(anon_5.end_no) FILTER (WHERE anon_5.weight < 0) AS end_no,
    sum(abs(anon_5.weight)) AS left_over
FROM (SELECT anon_6.unit AS unit, anon_6.k1 AS k1, sum(anon_6.weight) AS weight, min(anon_6.call_no) FILTER (WHERE anon_6.weight > 0) AS start_no, min(anon_6.call_no) FILTER (WHERE anon_6.weight < 0) AS end_no
FROM (SELECT calls.unit AS unit, calls.k1 AS k1, calls.call_no AS call_no, 1 AS weight, CASE WHEN (calls.kind != 'I') THEN CAST(row(calls.o1, calls.o2, calls.o3, calls.o4) AS TEXT) END AS image
FROM calls
WHERE calls.steps > 1 UNION ALL SELECT calls.unit AS unit,
    calls.k1 AS k1,
    calls.call_no AS call_no,
    -1 AS weight,
    CASE WHEN (calls.kind != 'D') THEN CAST(row(calls.n1, calls.n2, calls.n3, calls.n4) AS TEXT) END AS image
FROM calls
WHERE calls.steps > 1) AS anon_6 GROUP BY anon_6.unit, anon_6.k1, anon_6.image
HAVING sum(anon_6.weight) != 0) AS anon_5 GROUP BY anon_5.unit, anon_5.k1) AS anon_4 ON anon_3.unit = anon_4.unit AND CAST(row(anon_3.k1) AS record) = CAST(row(anon_4.k1) AS record) LEFT OUTER JOIN calls AS start_call ON start_call.call_no = anon_4.start_no LEFT OUTER JOIN calls AS end_call ON end_call.call_no = coalesce(anon_4.end_no, CASE WHEN (anon_4.left_over IS NULL) THEN anon_3.first_insert END)) AS anon_2
WHERE anon_2.kind IS NOT NULL) AS anon_1
