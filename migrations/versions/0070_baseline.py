"""The schema `snaptide`: the tables of each package that owns some, and functions.

Development versions had a chain of revisions from the first table on. This schema is
that of revision 0070 and has its number, so that a site of that one goes on from it.
"""

from alembic import op

from sites.sessions.revisions import run_script

revision = "0070"
down_revision = None

#: In this order, because later files refer to tables of earlier ones.
_FILES = (
    *("sites", "masters", "deferred", "snapshots", "groups"),
    *("checks", "take_order", "order", "procedure_calls"),
    *("comes_from", "numbers", "views"),
)


def upgrade() -> None:
    for name in _FILES:
        run_script(op.get_bind(), name)


def downgrade() -> None:
    run_script(op.get_bind(), "drop")
