-- An effect is sent in the transaction of its cause, if that goes on from here. It has
            -- no transaction of its own that could take other paths.
            UPDATE snaptide.deferred_transaction AS known
            SET origin = COALESCE(known.origin, brought ->> 'origin'),
                origin_transaction = COALESCE(known.origin_transaction, brought ->> 'transaction'),
                made_at = COALESCE(known.made_at, (brought ->> 'made_at')::timestamptz),
                sources = CASE WHEN known.origin IS NULL AND known.sources IS NULL THEN NULL
                               WHEN effect THEN known.sources || (brought -> 'sources')
                               ELSE COALESCE(brought -> 'sources', '{{}}') || known.sources END
            WHERE known.xid = xact
              AND CASE WHEN effect THEN
                      COALESCE(known.sources ->> {group}, '') = ''
                      OR written = (SELECT count(*) FROM {queue} q WHERE q.xid = xact)
                  ELSE known.origin IS NULL AND known.sources IS NOT NULL
                      AND (known.sources ->> {group} IS NULL
                           OR COALESCE(brought -> 'sources' ->> {group}, '') = '')
                  END;
            IF NOT FOUND THEN
                IF effect OR brought -> 'sources' ->> {group} = '' OR EXISTS (
                    SELECT FROM snaptide.deferred_transaction AS known
                    WHERE known.xid = xact AND known.sources ->> {group} = ''
                ) THEN
                    RAISE EXCEPTION 'A trigger or a called procedure changes % in a transaction of another master that goes on from here: the two cannot go to the same masters', TG_RELID::regclass
                        USING HINT = 'Make the trigger do nothing if snaptide.comes_from() IS NOT NULL; call the procedure at its origin too, or in a transaction of its own. Then retry the transaction.',
                              ERRCODE = 'raise_exception';
                END IF;
                RAISE EXCEPTION 'Changes that were made at different sites cannot be in one transaction'
                    USING HINT = 'Commit after each retry of a parked transaction, before you change anything else.',
                          ERRCODE = 'object_not_in_prerequisite_state';
            END IF;
