-- At a master: what a push applies, and what foreign keys do in answer, goes on to the
        -- masters that the paths of the group name for the master at which it began. What
        -- comes from a snapshot begins here. So it is with what a procedure changes, and
        -- its triggers: the other masters run it too.
        effect := pg_trigger_depth() > 1
            AND current_setting('snaptide.writing', true) IS DISTINCT FROM 'call';
        IF effect THEN
            brought := jsonb_build_object(
                'user', brought -> 'user', 'sources', jsonb_build_object({group}::text, ''));
        ELSIF brought -> 'sources' ->> {group} <> ALL ({forwarded}) THEN
            RETURN NULL;
        END IF;
