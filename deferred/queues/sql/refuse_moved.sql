{moved};
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written > 0 THEN
            RAISE EXCEPTION 'The key of a row of this snapshot cannot be changed: columns that only the master has would be lost'
                USING HINT = 'Create the snapshot log WITH ROWID, or a snapshot with all columns.',
                      ERRCODE = CASE WHEN effect THEN 'raise_exception' ELSE 'feature_not_supported' END;
        END IF;
