
    ELSIF snaptide$known THEN
        IF TG_LEVEL = 'ROW' THEN
            IF TG_OP <> 'INSERT' THEN
                INSERT INTO {log} (kind, xid, slot, {log_keys}, {log_values})
                VALUES (left(TG_OP, 1)::"char", snaptide$xact, snaptide$ring,
                        {row_old_keys}, {row_old_values});
            END IF;
            IF TG_OP <> 'DELETE' THEN
                INSERT INTO {log} (kind, xid, slot, {log_keys}, {log_values})
                VALUES (left(TG_OP, 1)::"char", snaptide$xact, snaptide$ring,
                        {row_new_keys}, {row_new_values});
            END IF;
        ELSIF TG_OP = 'INSERT' THEN
            INSERT INTO {log} (kind, xid, slot, {log_keys}, {log_values})
            SELECT 'I', snaptide$xact, snaptide$ring, {keys}, {values}
            FROM snaptide_new AS r;
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO {log} (kind, xid, slot, {log_keys}, {log_values})
            SELECT 'D', snaptide$xact, snaptide$ring, {keys}, {values}
            FROM snaptide_old AS r;
        ELSE
            INSERT INTO {log} (kind, xid, slot, {log_keys}, {log_values})
            SELECT c.kind, snaptide$xact, snaptide$ring, {paired_keys}, {either_values}
            FROM (SELECT CASE WHEN n.{key} IS NULL THEN 'D'::"char"
                              WHEN o.{key} IS NULL THEN 'I' ELSE 'U' END,
                         {either_keys}, {new_values}, {old_values}
                  FROM snaptide_new n FULL JOIN snaptide_old o ON {same_key}
                  OFFSET 0) AS c (kind, {log_keys}, {new_names}, {old_names})
            JOIN (VALUES (false), (true)) AS i (old)
              ON NOT i.old OR ROW({news}) IS DISTINCT FROM ROW({olds});
        END IF;
