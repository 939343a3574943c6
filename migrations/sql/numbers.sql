-- Function: snaptide.next_number
-- Draws a number from the leases of this site, for the default of a column.
--   column_id: the column's row in snaptide.numbered_column.
-- Takes a ticket from the column's sequence; the range that holds the ticket says which
-- number it stands for. Once in each session it makes sure that this is the database that
-- the numbers were leased to: a restored or copied one has another cluster, timeline or
-- number. Whoever pretends that this was done gets nothing that an INSERT with a number
-- of their own would not give.
CREATE FUNCTION snaptide.next_number(column_id integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ticket bigint := nextval(('snaptide.numbers_' || column_id)::regclass);
    number bigint;
    warn boolean;
    remedy text;
BEGIN
    IF current_setting('snaptide.drawing', true) IS DISTINCT FROM pg_backend_pid()::text THEN
        PERFORM FROM snaptide.site_identity i
        WHERE i.system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)
          AND i.timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4
          AND i.database_oid = (SELECT d.oid::int8 FROM pg_database d
                                WHERE d.datname = current_database());
        IF NOT FOUND THEN
            RAISE EXCEPTION 'This database was restored, copied or promoted since it leased its numbers.'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = 'The database that had the leases may have used the same numbers.',
                HINT = (SELECT format('Run: snaptide site check %s --repair, then: snaptide push %s',
                                      i.name, i.name)
                        FROM snaptide.site_identity i);
        END IF;
        PERFORM set_config('snaptide.drawing', pg_backend_pid()::text, false);
    END IF;
    SELECT r.first + (ticket - r.from_ticket) * r.step, ticket = r.warn_at
    INTO number, warn
    FROM snaptide.number_range r
    WHERE r.column_id = next_number.column_id
      AND r.from_ticket <= ticket AND r.to_ticket >= ticket AND NOT r.void
    ORDER BY r.from_ticket DESC LIMIT 1;
    IF number IS NULL OR warn THEN
        SELECT format('Run, while the master can be reached: snaptide numbers lease %s %s.%s --numbers 100000',
                      i.name, quote_ident(n.snapshot), quote_ident(n.column_name))
        INTO remedy
        FROM snaptide.numbered_column n, snaptide.site_identity i WHERE n.id = next_number.column_id;
    END IF;
    IF number IS NULL THEN
        RAISE EXCEPTION 'The numbers that this site has leased are used up (%).',
            (SELECT n.snapshot || '.' || n.column_name FROM snaptide.numbered_column n
             WHERE n.id = next_number.column_id)
            USING ERRCODE = 'sequence_generator_limit_exceeded',
            DETAIL = COALESCE('The last contact brought no more: '
                              || (SELECT n.last_error FROM snaptide.numbered_column n
                                  WHERE n.id = next_number.column_id),
                              'Each push or refresh leases more.'),
            HINT = remedy;
    END IF;
    IF warn THEN
        RAISE WARNING 'This site has used 80 %% of the numbers that it had left for this column.'
            USING HINT = remedy;
    END IF;
    RETURN number;
END
$$;

-- Function: snaptide.uuidv7
-- Makes a uuid that begins with the time, as RFC 9562 lays out version 7.
CREATE FUNCTION snaptide.uuidv7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (lpad(to_hex((EXTRACT(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || '7' || right(replace(gen_random_uuid()::text, '-', ''), 19))::uuid;
