"""Folders: files that sites have as rows, and as a directory."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from folders.clean import CleanReport as CleanReport, clean as clean
    from folders.create import Folder as Folder, create as create
    from folders.entries import Entry as Entry
    from folders.errors import (
        DirectoryBusy as DirectoryBusy,
        DirectoryRefused as DirectoryRefused,
        MassRemoval as MassRemoval,
        NoFolderTable as NoFolderTable,
        StateNotSaved as StateNotSaved,
        UnknownFolder as UnknownFolder,
    )
    from folders.listing import (
        FolderSize as FolderSize,
        list_files as list_files,
        list_folders as list_folders,
    )
    from folders.serve import application as application
    from folders.sync import sync as sync
    from folders.watch import watch as watch
    from folders.work import SyncReport as SyncReport


face(__name__)
