-- A table that stores each image as one value: `wide.create` fills this in, statement by
-- statement. An image is taken apart once per row, not once per column.
ALTER TABLE {store} ADD COLUMN image {kind};

CREATE VIEW {table} AS
SELECT s.ctid AS place, {shown_plain}, {shown_images}
FROM {store} s CROSS JOIN LATERAL unnest(ARRAY[s.image]) AS i;

CREATE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {store} ({plain}, image) VALUES ({new_plain}, ROW({new_images}));
        RETURN NEW;
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE {store} SET ({plain}, image) = ROW({new_plain}, ROW({new_images})::{kind})
        WHERE ctid = OLD.place;
        RETURN NEW;
    END IF;
    DELETE FROM {store} WHERE ctid = OLD.place;
    RETURN OLD;
END
$snaptide$;

REVOKE EXECUTE ON FUNCTION {function}() FROM PUBLIC;

CREATE TRIGGER snaptide_wide INSTEAD OF INSERT OR UPDATE OR DELETE ON {table}
FOR EACH ROW EXECUTE FUNCTION {function}();
