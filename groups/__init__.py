"""What spans several masters: replication groups and the paths between them."""

from groups.ddl import execute_ddl
from groups.define import (
    add_master,
    add_table,
    create_group,
    drop_group,
    remove_master,
    remove_table,
)
from groups.define_paths import set_paths
from groups.group import Group, Master, Status, TargetType
from groups.paths import Path, chain, full_mesh, star, tree
from groups.quiesce import SuspendReport, resume, suspend
from groups.show import GroupReport, list_groups, show_group

__all__ = [
    "Group",
    "GroupReport",
    "Master",
    "Path",
    "Status",
    "SuspendReport",
    "TargetType",
    "add_master",
    "add_table",
    "chain",
    "create_group",
    "drop_group",
    "execute_ddl",
    "full_mesh",
    "list_groups",
    "remove_master",
    "remove_table",
    "resume",
    "set_paths",
    "show_group",
    "star",
    "suspend",
    "tree",
]
