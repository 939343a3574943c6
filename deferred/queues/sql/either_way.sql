IF renamed IS NULL THEN
            {known};
        ELSE
            EXECUTE {composed} USING xact, ins, upd, del;
        END IF
