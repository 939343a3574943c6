-- At a master: changes that a push applies, with the actions of foreign keys that they
        -- cause, go on to the masters that the group's paths name for the master at which
        -- they began. Changes from a snapshot begin here. The same holds for changes of a
        -- procedure and its triggers, because the other masters run it too; if the
        -- caller does not, the push says that they begin here.
        effect := inside
            AND current_setting('snaptide.writing', true) IS DISTINCT FROM 'call';
        IF effect THEN
            brought := jsonb_build_object(
                'user', brought -> 'user', 'sources', jsonb_build_object({group}::text, ''));
        ELSIF brought -> 'sources' ->> {group} <> ALL ({forwarded}) THEN
            RETURN NULL;
        END IF;
