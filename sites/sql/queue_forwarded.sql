-- At a master: what a push applies goes on to the masters that the paths of the group name
-- for the master at which it began. What comes from a snapshot begins here.
        brought := NULLIF(current_setting('snaptide.transaction', true), '')::jsonb;
        IF brought -> 'sources' ->> {group} <> ALL ({forwarded}) THEN
            RETURN NULL;
        END IF;
