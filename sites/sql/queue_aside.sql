-- At a snapshot: what a refresh merges is not queued. What a user's trigger or a cascade
-- changes on its own account meanwhile becomes an extra key, which the next refresh
-- reads again. A cascade fires this as deep as the merge's statement does, but on another
-- table than the merge says that it writes.
        aside := pg_trigger_depth() > 1
            OR COALESCE(current_setting('snaptide.writing', true), '')
               NOT IN ('', TG_RELID::text);
        IF aside AND TG_OP <> 'INSERT' THEN
            {extra_old};
        END IF;
        IF aside AND TG_OP <> 'DELETE' THEN
            {extra_new};
        END IF;
        RETURN NULL;
