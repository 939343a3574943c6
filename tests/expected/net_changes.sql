WITH RECURSIVE calls AS NOT MATERIALIZED
(SELECT transactions.order_no AS tran, snaptide.def$_orders.call_no AS call_no, CASE WHEN (snaptide.def$_orders.moved AND upper(CAST(snaptide.def$_orders.kind AS TEXT)) = 'U') THEN 'M' ELSE upper(CAST(snaptide.def$_orders.kind AS TEXT)) END AS kind, snaptide.def$_orders.moved AS moved, coalesce(snaptide.def$_orders.o1, snaptide.def$_orders.n1) AS k1, snaptide.def$_orders.o1 AS o1, snaptide.def$_orders.o2 AS o2, snaptide.def$_orders.o3 AS o3, snaptide.def$_orders.o4 AS o4, snaptide.def$_orders.n1 AS n1, snaptide.def$_orders.n2 AS n2, snaptide.def$_orders.n3 AS n3, snaptide.def$_orders.n4 AS n4
FROM snaptide.def$_orders JOIN transactions ON transactions.xid = snaptide.def$_orders.xid
WHERE snaptide.def$_orders.xid = any(array((SELECT transactions.xid
FROM transactions)))),
moving AS
(SELECT DISTINCT calls.tran AS tran
FROM calls
WHERE calls.kind = 'M'),
on_trails AS
(SELECT DISTINCT anon_3.call_no AS call_no
FROM (SELECT anon_4.call_no AS call_no, bool_or(anon_4.moves) OVER (PARTITION BY anon_4.tran, anon_4.k1) AS moved
FROM (SELECT calls.call_no AS call_no, calls.tran AS tran, calls.kind = 'M' AS moves, calls.k1 AS k1
FROM calls
WHERE (EXISTS (SELECT 1 AS anon_5
FROM moving)) AND calls.tran IN (SELECT moving.tran
FROM moving) UNION ALL SELECT calls.call_no AS call_no, calls.tran AS tran, calls.kind = 'M' AS anon_6, calls.n1 AS k1
FROM calls
WHERE (EXISTS (SELECT 1 AS anon_5
FROM moving)) AND calls.tran IN (SELECT moving.tran
FROM moving) AND calls.kind = 'M') AS anon_4) AS anon_3
WHERE anon_3.moved),
repeated AS
(SELECT anon_2.call_no AS call_no
FROM (SELECT calls.call_no AS call_no, count(*) OVER (PARTITION BY calls.tran, calls.k1) AS times
FROM calls) AS anon_2
WHERE anon_2.times > 1
    AND (EXISTS (SELECT calls.tran
FROM calls
    GROUP BY calls.tran,
    calls.k1
HAVING count(*) > 1)) AND NOT (EXISTS (SELECT on_trails.call_no
FROM on_trails
WHERE anon_2.call_no = on_trails.call_no))),
many AS
(SELECT calls.tran AS tran, calls.call_no AS call_no, calls.kind AS kind, calls.moved AS moved, calls.k1 AS k1, calls.o1 AS o1, calls.o2 AS o2, calls.o3 AS o3, calls.o4 AS o4, calls.n1 AS n1, calls.n2 AS n2, calls.n3 AS n3, calls.n4 AS n4, count(*) OVER (PARTITION BY calls.k1, calls.tran) AS steps, min(calls.call_no) OVER (PARTITION BY calls.k1, calls.tran) AS first_no
FROM calls JOIN repeated ON calls.call_no = repeated.call_no),
"trailing" AS
(SELECT calls.tran AS tran, calls.call_no AS call_no, calls.kind AS kind, calls.moved AS moved, calls.k1 AS k1, calls.o1 AS o1, calls.o2 AS o2, calls.o3 AS o3, calls.o4 AS o4, calls.n1 AS n1, calls.n2 AS n2, calls.n3 AS n3, calls.n4 AS n4
FROM calls JOIN on_trails ON calls.call_no = on_trails.call_no
WHERE EXISTS (SELECT 1 AS anon_15
FROM on_trails)),
ranked AS
(SELECT anon_16.tran AS tran, anon_16.call_no AS call_no, anon_16.side AS side, anon_16.leaves AS leaves, anon_16.image AS image, row_number() OVER (PARTITION BY anon_16.tran, anon_16.image, anon_16.side ORDER BY anon_16.call_no) AS place, sum(CASE WHEN (anon_16.side = 'o') THEN 1 ELSE -1 END) OVER (PARTITION BY anon_16.tran, anon_16.image) AS more, first_value(anon_16.leaves) OVER (PARTITION BY anon_16.tran, anon_16.image ORDER BY anon_16.call_no) AS left_first
FROM (SELECT "trailing".tran AS tran, "trailing".call_no AS call_no, 'o' AS side, "trailing".kind IN ('D', 'M') AS leaves, CASE WHEN (("trailing".kind NOT IN (NULL) OR (1 = 1))) THEN CAST(row("trailing".o1, "trailing".o2, "trailing".o3, "trailing".o4) AS TEXT) END AS image
FROM "trailing"
WHERE "trailing".kind != 'I' UNION ALL SELECT "trailing".tran AS tran,
    "trailing".call_no AS call_no,
    'n' AS side,
    false AS leaves,
    CASE WHEN (("trailing".kind NOT IN (NULL) OR (1 = 1))) THEN CAST(row("trailing".n1, "trailing".n2, "trailing".n3, "trailing".n4) AS TEXT) END AS image
FROM "trailing"
WHERE "trailing".kind != 'D') AS anon_16),
follow AS
(SELECT came.call_no AS call_no, "left".call_no AS next_no
FROM ranked AS came JOIN ranked AS "left" ON came.tran = "left".tran
    AND came.image = "left".image
    AND came.place + CASE WHEN (came.more > 0 OR came.more = 0 AND came.left_first) THEN 1 ELSE 0 END = "left".place
WHERE came.side = 'n'
    AND "left".side = 'o'),
trail(first_no, call_no, kind) AS
(SELECT "trailing".call_no AS first_no, "trailing".call_no AS call_no, "trailing".kind AS kind
FROM "trailing"
WHERE NOT (EXISTS (SELECT follow.next_no
FROM follow
WHERE follow.next_no = "trailing".call_no)) UNION ALL SELECT trail.first_no AS first_no, follow.next_no AS next_no, "trailing".kind AS kind
FROM trail JOIN follow ON follow.call_no = trail.call_no JOIN "trailing" ON "trailing".call_no = follow.next_no)
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
WHERE calls.call_no = repeated.call_no)) AND NOT (EXISTS (SELECT on_trails.call_no
FROM on_trails
WHERE calls.call_no = on_trails.call_no)) UNION ALL SELECT anon_7.tran AS tran, anon_7.call_no AS call_no, anon_7.kind AS kind, anon_7.k1 AS k1, anon_7.o1 AS o1, anon_7.o2 AS o2, anon_7.o3 AS o3, anon_7.o4 AS o4, anon_7.n1 AS n1, anon_7.n2 AS n2, anon_7.n3 AS n3, anon_7.n4 AS n4
FROM (SELECT anon_8.tran AS tran, anon_8.call_no AS call_no, anon_8.kind AS kind, anon_8.o1 AS o1, anon_8.o2 AS o2, anon_8.o3 AS o3, anon_8.o4 AS o4, coalesce(anon_8.n1, CASE WHEN (anon_8.kind = 'X') THEN anon_8.k1 END) AS n1, anon_8.n2 AS n2, anon_8.n3 AS n3, anon_8.n4 AS n4, anon_8.k1 AS k1
FROM (SELECT anon_9.tran AS tran, coalesce(anon_10.end_no, anon_9.first_no) AS call_no, CASE WHEN (anon_10.left_over > 2) THEN 'X' WHEN (anon_10.left_over IS NULL AND anon_9.first_insert = anon_9.first_no) THEN 'N' WHEN (anon_10.left_over IS NULL) THEN NULL WHEN (start_call.kind = 'I') THEN 'I' WHEN (end_call.kind = 'D') THEN 'D' WHEN anon_9.dropped THEN 'R' ELSE 'U' END AS kind, start_call.o1 AS o1, start_call.o2 AS o2, start_call.o3 AS o3, start_call.o4 AS o4, end_call.n1 AS n1, end_call.n2 AS n2, end_call.n3 AS n3, end_call.n4 AS n4, anon_9.k1 AS k1
FROM (SELECT many.first_no AS first_no, many.tran AS tran, many.k1 AS k1, min(many.call_no) FILTER (WHERE many.kind = 'I') AS first_insert, bool_or(many.kind = 'D' AND NOT many.moved) AS dropped
FROM many
WHERE many.steps > 1
    GROUP BY many.first_no,
    many.tran,
    many.k1) AS anon_9 LEFT OUTER JOIN (SELECT anon_11.first_no AS first_no,
    max(anon_11.start_no) FILTER (WHERE anon_11.weight > 0) AS start_no,
    max(anon_11.end_no) FILTER (WHERE anon_11.weight < 0) AS end_no,
    sum(abs(anon_11.weight)) AS left_over
FROM (SELECT anon_12.first_no AS first_no, sum(anon_12.weight) AS weight, min(anon_12.call_no) FILTER (WHERE anon_12.weight > 0) AS start_no, min(anon_12.call_no) FILTER (WHERE anon_12.weight < 0) AS end_no
FROM (SELECT many.first_no AS first_no, many.call_no AS call_no, 1 AS weight, CASE WHEN ((many.kind NOT IN ('I'))) THEN CAST(row(many.o1, many.o2, many.o3, many.o4) AS TEXT) END AS image
FROM many
WHERE many.steps > 1 UNION ALL SELECT many.first_no AS first_no,
    many.call_no AS call_no,
    -1 AS weight,
    CASE WHEN ((many.kind NOT IN ('D'))) THEN CAST(row(many.n1, many.n2, many.n3, many.n4) AS TEXT) END AS image
FROM many
WHERE many.steps > 1) AS anon_12 GROUP BY anon_12.first_no, anon_12.image
HAVING sum(anon_12.weight) != 0) AS anon_11 GROUP BY anon_11.first_no) AS anon_10 ON anon_9.first_no = anon_10.first_no LEFT OUTER JOIN many AS start_call ON start_call.call_no = anon_10.start_no LEFT OUTER JOIN many AS end_call ON end_call.call_no = coalesce(anon_10.end_no, CASE WHEN (anon_10.left_over IS NULL) THEN anon_9.first_insert END)) AS anon_8
WHERE anon_8.kind IS NOT NULL) AS anon_7 UNION ALL SELECT anon_13.tran AS tran, anon_13.call_no AS call_no, anon_13.kind AS kind, coalesce(anon_13.o1,
    anon_13.n1) AS k1, anon_13.o1 AS o1, anon_13.o2 AS o2, anon_13.o3 AS o3, anon_13.o4 AS o4, anon_13.n1 AS n1, anon_13.n2 AS n2, anon_13.n3 AS n3, anon_13.n4 AS n4
FROM (SELECT trail_start.tran AS tran, trail_end.call_no AS call_no, CASE WHEN (trail_start.kind != 'I' AND count(trail_start.o1) OVER (PARTITION BY trail_start.tran, trail_start.o1) > 1 OR trail_end.kind != 'D' AND count(trail_end.n1) OVER (PARTITION BY trail_end.tran, trail_end.n1) > 1) THEN 'X' WHEN (trail_start.kind = 'I' AND trail_end.kind = 'D') THEN 'N' WHEN (trail_start.kind = 'I') THEN 'I' WHEN (trail_end.kind = 'D') THEN 'D' WHEN (CASE WHEN ((trail_start.kind NOT IN ('I'))) THEN CAST(row(trail_start.o1, trail_start.o2, trail_start.o3, trail_start.o4) AS TEXT) END = CASE WHEN ((trail_end.kind NOT IN ('D'))) THEN CAST(row(trail_end.n1, trail_end.n2, trail_end.n3, trail_end.n4) AS TEXT) END) THEN NULL WHEN (anon_14.moved AND CASE WHEN ((trail_start.kind NOT IN (NULL) OR (1 = 1))) THEN CAST(row(trail_start.o1) AS TEXT) END != CASE WHEN ((trail_end.kind NOT IN (NULL) OR (1 = 1))) THEN CAST(row(trail_end.n1) AS TEXT) END) THEN 'M' ELSE 'U' END AS kind, trail_start.o1 AS o1, trail_start.o2 AS o2, trail_start.o3 AS o3, trail_start.o4 AS o4, CASE WHEN (trail_start.kind = 'I' AND trail_end.kind = 'D') THEN trail_start.n1 ELSE trail_end.n1 END AS n1, CASE WHEN (trail_start.kind = 'I' AND trail_end.kind = 'D') THEN trail_start.n2 ELSE trail_end.n2 END AS n2, CASE WHEN (trail_start.kind = 'I' AND trail_end.kind = 'D') THEN trail_start.n3 ELSE trail_end.n3 END AS n3, CASE WHEN (trail_start.kind = 'I' AND trail_end.kind = 'D') THEN trail_start.n4 ELSE trail_end.n4 END AS n4
FROM (SELECT trail.first_no AS first_no, max(trail.call_no) FILTER (WHERE follow.next_no IS NULL) AS last_no, bool_or(trail.kind = 'M') AS moved
FROM trail LEFT OUTER JOIN follow ON follow.call_no = trail.call_no
    GROUP BY trail.first_no) AS anon_14 JOIN "trailing" AS trail_start ON trail_start.call_no = anon_14.first_no JOIN "trailing" AS trail_end ON trail_end.call_no = anon_14.last_no) AS anon_13
WHERE anon_13.kind IS NOT NULL) AS anon_1
