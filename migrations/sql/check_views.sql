-- What saved checks found, as DBMS_RECTIFIER_DIFF.DIFFERENCES leaves it in two
-- tables: the rows, and which site has each of them. A row that differs is there
-- twice, once for each site, with the columns that differ.
CREATE VIEW snaptide.defcheckrow AS
SELECT 2 * d.id - v.at_master::int AS r_id,
       d.run_id AS run,
       d.snapshot,
       d.kind,
       d.reason,
       d.key,
       v.image AS "row"
FROM snaptide.check_difference d
CROSS JOIN LATERAL (VALUES (true, d.row_master), (false, d.row_here)) v (at_master, image)
WHERE v.image IS NOT NULL;

CREATE VIEW snaptide.defchecklocation AS
SELECT 2 * d.id - v.at_master::int AS r_id,
       d.run_id AS run,
       CASE WHEN v.at_master THEN s.master ELSE i.name END AS present,
       CASE WHEN v.at_master THEN i.name ELSE s.master END AS absent
FROM snaptide.check_difference d
JOIN snaptide.check_snapshot s USING (run_id, snapshot)
CROSS JOIN snaptide.site_identity i
CROSS JOIN LATERAL (VALUES (true, d.row_master), (false, d.row_here)) v (at_master, image)
WHERE v.image IS NOT NULL;
