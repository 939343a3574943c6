"""A master says how old the oldest change is that its snapshot logs keep."""

from __future__ import annotations

from alembic import op

revision = "0068"
down_revision = "0067"

# Finds the oldest row of each log by the index of its transactions. The deletes that a
# purge keeps, in the last partition, are kept by age and do not count.
_FUNCTION = """
CREATE FUNCTION snaptide.log_oldest() RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    log text;
    found timestamptz;
    oldest timestamptz;
BEGIN
    FOR log IN SELECT l.log_table FROM snaptide.snapshot_log l LOOP
        EXECUTE format(
            'SELECT at FROM snaptide.%I WHERE slot < 8 ORDER BY xid LIMIT 1', log)
        INTO found;
        oldest := least(oldest, found);
    END LOOP;
    RETURN oldest;
END;
$$
"""


def upgrade() -> None:
    op.execute(_FUNCTION)


def downgrade() -> None:
    op.execute("DROP FUNCTION snaptide.log_oldest()")
