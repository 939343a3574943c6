"""Errors of images of master tables: codes SNP-259 to SNP-269."""

from __future__ import annotations

from sites.errors import SnaptideError


class ImageRowsRefused(SnaptideError):
    """The site cannot hold rows of the image."""

    code = "SNP-259"
    hint = (
        "The message has the database's own reason. Load into a database that can hold "
        "the rows, as one of the encoding UTF8 can; or change them at the master, make "
        "a new image, and load that."
    )


class ImageFolderUnusable(SnaptideError):
    """The folder of a new image has something else in it, or cannot be written."""

    code = "SNP-260"
    hint = "Name a folder with room that is empty, or that does not exist yet."


class ImageConditionRefused(SnaptideError):
    """A condition that asks other tables stands in the way of an image."""

    code = "SNP-261"
    hint = (
        "An image is filtered row by row. Make the image without such a condition, and "
        "fill the snapshot with snaptide refresh."
    )


class ImageDamaged(SnaptideError):
    """A file of the image is not what was written."""

    code = "SNP-262"
    hint = "Copy the file that the message names again, then run the command again."


class SliceMissing(SnaptideError):
    """Files of the image are missing; those that are there have been loaded."""

    code = "SNP-263"
    hint = "Bring the files that the message names, then run the command again."


class ImageOfAnotherMaster(SnaptideError):
    """The image is of another master, or the master was repaired after it."""

    code = "SNP-264"
    hint = "Make a new image of the snapshot's master: snaptide image make"


class ImageExpired(SnaptideError):
    """The image has expired or was dropped: the master's log may have been purged."""

    code = "SNP-265"
    hint = "Make a new image (snaptide image make), or fill the snapshot by a refresh."


class ImageColumnsDiffer(SnaptideError):
    """The image lacks columns of the snapshot, or has others of these names."""

    code = "SNP-266"
    hint = (
        "Make a new image with the columns that the message names. If the master's "
        "columns were altered, alter or create the snapshot again, too."
    )


class ImageLacksRows(SnaptideError):
    """The image has not all rows that the snapshot is to have."""

    code = "SNP-267"
    hint = (
        "Make a new image, of all rows or with the condition of the snapshot, and with "
        "all tables of its refresh group."
    )


class AlreadyLoaded(SnaptideError):
    """A snapshot of the group shows a moment of the master already."""

    code = "SNP-268"
    hint = (
        "Fill the others with snaptide refresh; or create them in a refresh group of "
        "their own, which an image can fill."
    )


class NotAnImage(SnaptideError):
    """The folder has no image that this version can read."""

    code = "SNP-269"
    hint = (
        "Name the folder that snaptide image make has written to its end; the manifest "
        "comes last. A newer version may have written it: upgrade this one."
    )
