-- At a snapshot: changes that a refresh merges are not queued. A cascade fires this at
        -- the same trigger depth as the merge's statement, but on a table that the merge
        -- does not name, or on the same table if its rows refer to one another; and it
        -- inserts nothing. The master usually has the same foreign key, so those rows
        -- become extra keys, which the next refresh reads again. Any other change is an
        -- effect, also of that depth: a rule's. No push writes a snapshot.
        IF NOT inside AND current_setting('snaptide.writing', true) ~ '^[0-9]+$' THEN
            IF TG_OP <> 'INSERT' AND
        {cascade} THEN
                {extra_old};
                IF TG_OP = 'UPDATE' THEN
                    {extra_new};
                END IF;
                RETURN NULL;
            ELSIF TG_RELID::text = current_setting('snaptide.writing') THEN
                RETURN NULL;
            END IF;
        END IF;
        effect := true;
        brought := jsonb_build_object('user', brought -> 'user', 'sources', '{{}}'::jsonb);
