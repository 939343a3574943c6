"""Errors of folders: codes SNP-6xx."""

from __future__ import annotations

from sites.errors import SnaptideError


class UnknownFolder(SnaptideError):
    """The site has no folder of that name."""

    code = "SNP-600"
    hint = (
        "snaptide folder list SITE names those that it has. At a master, make one: "
        "snaptide folder create MASTER NAME. A site needs snapshots of both of its "
        "tables, NAME_entry and NAME_chunk, under these names, with all columns: "
        "updatable, and refreshed once, if its files are to be changed."
    )


class NoFolderTable(SnaptideError):
    """A table has the name of a folder's table, and is not one."""

    code = "SNP-601"
    hint = "Choose another name for the folder, or rename the table. It was left alone."


class DirectoryRefused(SnaptideError):
    """The directory cannot be kept in step with the folder."""

    code = "SNP-602"
    hint = (
        "Give a directory that is there, may be written, and belongs to this folder of "
        "this site alone. The message says what is wrong. Nothing was changed."
    )


class DirectoryBusy(SnaptideError):
    """Another sync of the directory is running."""

    code = "SNP-603"
    hint = "Wait until it has ended; a sync that watches ends with Ctrl-C."


class StateNotSaved(SnaptideError):
    """The directory has no room for what a sync has done, or cannot be written."""

    code = "SNP-605"
    hint = (
        "Make room on its disk, or see that it may be written, and sync again. No file "
        "is lost: what was brought into step is found to be equal."
    )


class MassRemoval(SnaptideError):
    """The sync would remove an unusually large share of the files."""

    code = "SNP-604"
    hint = (
        "Is the disk mounted, and are both snapshots loaded? If the files are really "
        "to go, say --allow-mass-delete (allow_mass_delete=True). Nothing was changed."
    )
