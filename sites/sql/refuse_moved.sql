IF EXISTS (SELECT FROM snaptide_new AS n ({row})
                   FULL JOIN snaptide_old AS o ({row}) ON {same_key}
                   WHERE n.{key} IS NULL OR o.{key} IS NULL) THEN
            RAISE EXCEPTION 'The key of a row of this snapshot cannot be changed: columns that only the master has would be lost'
                USING HINT = 'Create the snapshot log WITH ROWID, or a snapshot with all columns.',
                      ERRCODE = 'feature_not_supported';
        END IF;
