-- Records the keys that a statement changed in a master table's snapshot log.
-- Fires once for each statement (with transition tables), once for a TRUNCATE, and once
-- for each row that a native subscription writes, which fires no statement triggers.
-- If the table no longer has the key that the log was made for, users can still write,
-- and the function leaves the mark of a TRUNCATE: the next refresh is then complete.
-- The join of old and new rows is a FULL JOIN: PL/pgSQL plans an inner join for
-- the size of the first call and keeps that plan for a thousand times as many.
-- It names only key columns, so users can drop another column and go on writing.
-- A second function of the same name finds out whether the table still has its key. It is
-- declared IMMUTABLE and names the table by a constant, so that a plan holds the answer;
-- each change of the table makes PostgreSQL plan it again. It runs at each statement for a
-- partition, which may be detached and altered; in a copy of the database, where the table
-- has another number; and in a transaction that sees one moment, because an answer from an
-- old moment must not be kept.
-- Of partition columns it records a hash of each value, old and new: an UPDATE that moves
-- a row from one value to another has two rows in the log. If the table no longer has
-- these columns, as they were declared, the log gets its default for them, which stands
-- for any value.
-- Variables have names that no column has, and column names are qualified with the row: a
-- table may have columns that are called ring or new.
-- Tables directly manipulated: the snapshot log.
CREATE OR REPLACE FUNCTION {function}(logged regclass) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $snaptide$
    SELECT {key_count} = count(*) FROM pg_attribute a
    WHERE a.attrelid = logged AND a.attname = ANY ({key_names})
      AND (a.attname, format_type(a.atttypid, NULL)) IN ({key_types})
$snaptide$;
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
DECLARE
    snaptide$xact xid8 := pg_current_xact_id();
    snaptide$ring smallint := (snaptide$xact::text::bigint >> {slot_shift}) % {slots};
    snaptide$intact boolean;{known}
BEGIN
    IF TG_RELID = {table}::regclass
       AND current_setting('transaction_isolation') = 'read committed' THEN
        snaptide$intact := {function}({table}::regclass);{known_here}
    ELSE
        snaptide$intact := {function}(TG_RELID);{known_there}
    END IF;
    IF TG_OP = 'TRUNCATE' OR NOT snaptide$intact THEN
        INSERT INTO {log} (kind, xid, slot) VALUES ('T', snaptide$xact, snaptide$ring);{with_values}
    ELSIF TG_LEVEL = 'ROW' THEN
        IF TG_OP <> 'INSERT' THEN
            INSERT INTO {log} (kind, xid, slot, {log_keys})
            VALUES (left(TG_OP, 1)::"char", snaptide$xact, snaptide$ring, {row_old_keys});
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO {log} (kind, xid, slot, {log_keys})
            VALUES (left(TG_OP, 1)::"char", snaptide$xact, snaptide$ring, {row_new_keys});
        END IF;
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO {log} (kind, xid, slot, {log_keys})
        SELECT 'I', snaptide$xact, snaptide$ring, {keys} FROM snaptide_new AS r;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO {log} (kind, xid, slot, {log_keys})
        SELECT 'D', snaptide$xact, snaptide$ring, {keys} FROM snaptide_old AS r;
    ELSE
        INSERT INTO {log} (kind, xid, slot, {log_keys})
        SELECT CASE WHEN n.{key} IS NULL THEN 'D' WHEN o.{key} IS NULL THEN 'I' ELSE 'U' END,
               snaptide$xact, snaptide$ring, {either_keys}
        FROM snaptide_new n FULL JOIN snaptide_old o ON {same_key};
    END IF;
    RETURN NULL;
END
$snaptide$
