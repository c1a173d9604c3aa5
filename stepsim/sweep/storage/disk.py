"""Files in the folder of a sweep; errors state what is kept, and how to continue."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepsim.atomic import renamed
from stepsim.errors import OutputError, SweepError

_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
"""Error codes for a lock that another process holds."""

_NO_FOLDERS = (errno.EACCES, errno.EINVAL, errno.ENOTSUP)
"""Error codes of systems that cannot flush folders: Windows, and some network file systems."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report for a failed write what is kept.

    Raises
    ------
    OutputError
        In place of an error of the disk.
    """
    try:
        yield
    except OutputError:  # an OSError too, but with its message already
        raise
    except OSError as error:
        # If several files are renamed, the error has the name.
        place = error.filename2 or path
        raise OutputError(
            f"{place}: cannot be written ({error.strerror or error}); what was finished is kept: "
            "check its folder and the free space there, and continue with --resume"
        ) from error


@contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """Temporary paths, renamed together if the block succeeds; raises like `writing`."""
    with writing(paths[0]), renamed(*paths) as parts:
        yield parts


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Distinguish unreadable files from damaged or missing ones.

    Raises
    ------
    SweepError
        In place of an error of the disk, except for a missing file.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SweepError(
            f"{path}: cannot be read ({error.strerror or error}), so it is unknown whether it is "
            "damaged; keep it, check the disk, the permissions and the limit of open "
            "files, and try again"
        ) from error


def flush(path: Path) -> None:
    """Flush a file before its rename, so that no torn file has a final name after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_names(folders: Iterable[Path]) -> None:
    """Flush renames and new files in folders, before anything depends on them."""
    for folder in folders:
        try:
            flush(folder)
        except OSError as error:
            if error.errno not in _NO_FOLDERS:
                raise


def lock(file: Any, folder: Path) -> None:
    """Lock a folder by an open file in it. The lock ends with the process, however it ends.

    Raises
    ------
    SweepError
        Another process holds the lock.
    OutputError
        The file system has no locks, or none left.
    """
    try:
        import fcntl
    except ImportError:  # not on this platform; two sweeps in one folder are then not noticed
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise SweepError(
                f"{folder}: another process is running a sweep there; wait for it or stop it"
            ) from error
        raise OutputError(
            f"{folder}: cannot be locked ({error.strerror}), so that another sweep there would "
            "not be noticed; choose a folder on a file system that has locks (flock)"
        ) from error
