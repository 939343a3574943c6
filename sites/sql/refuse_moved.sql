IF EXISTS (SELECT FROM snaptide_new n FULL JOIN snaptide_old o ON {same_key}
                   WHERE n.{key} IS NULL OR o.{key} IS NULL) THEN
            RAISE EXCEPTION 'The key of a row of this snapshot cannot be changed: columns that only the master has would be lost'
                USING HINT = 'Create the snapshot log WITH ROWID, or a snapshot with all columns.',
                      ERRCODE = 'feature_not_supported';
        END IF;
