-- At a snapshot: what a refresh merges is not queued. A cascade fires this as deep as
        -- the merge's statement does, but on another table than the merge says that it
        -- writes, or on the same where its rows refer to one another. The master has the
        -- same foreign key as a rule: those rows become extra keys, which the next refresh
        -- reads again. All else is an effect; no push writes a snapshot.
        IF pg_trigger_depth() = 1 AND current_setting('snaptide.writing', true) ~ '^[0-9]+$' THEN
            IF TG_RELID::text = current_setting('snaptide.writing') AND NOT EXISTS (
                SELECT FROM pg_constraint
                WHERE conrelid = TG_RELID AND confrelid = TG_RELID
                  AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))
            ) THEN
                RETURN NULL;
            END IF;
            IF TG_OP <> 'INSERT' THEN
                {extra_old};
            END IF;
            IF TG_OP = 'UPDATE' THEN
                {extra_new};
            END IF;
            RETURN NULL;
        END IF;
        effect := true;
        brought := jsonb_build_object('user', brought -> 'user', 'sources', '{{}}'::jsonb);
