-- At a snapshot: changes that a refresh merges are not queued. A cascade fires this at
        -- the same trigger depth as the merge's statement, but on a table that the merge
        -- does not name, or on the same table if its rows refer to one another. The master
        -- usually has the same foreign key, so those rows become extra keys, which the next
        -- refresh reads again. Any other change is an effect; no push writes a snapshot.
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
