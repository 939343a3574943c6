-- Whether a foreign key's action may have caused a statement on this table: keys with
        -- actions lead to it from the table that a refresh writes, directly or by others.
        EXISTS (
            SELECT FROM pg_constraint key
            WHERE key.conrelid = TG_RELID
              AND (key.confdeltype IN ('c', 'n', 'd') OR key.confupdtype IN ('c', 'n', 'd'))
              AND key.confrelid = ANY (ARRAY(
                  WITH RECURSIVE acted(relid) AS (
                      SELECT current_setting('snaptide.writing', true)::oid
                      UNION
                      SELECT c.conrelid FROM acted JOIN pg_constraint c ON c.confrelid = acted.relid
                      WHERE c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd')
                  )
                  SELECT relid FROM acted)))
