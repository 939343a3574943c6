-- Back to what knows of no procedures.
CREATE OR REPLACE VIEW snaptide.deferror AS
SELECT e.id AS error_id,
       e.origin_transaction AS deferred_tran_id,
       e.origin AS deferred_tran_db,
       s.name AS destination,
       e.origin_user,
       e.start_time,
       e.parked_at,
       e.reason,
       e.error_code AS error_number,
       e.error_message AS error_msg,
       e.waits_for,
       (SELECT count(*) FROM snaptide.error_call c WHERE c.error_id = e.id) AS calls
FROM snaptide.error_transaction e CROSS JOIN snaptide.site_identity s;

DROP FUNCTION snaptide.defer_call(text, text[], jsonb, boolean);
DROP FUNCTION snaptide.argument(anyelement);
