"""Files in the folder of a sweep: what fails says what is left, and how to go on."""

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
"""What systems say of a lock that another process has."""

_NO_FOLDERS = (errno.EACCES, errno.EINVAL, errno.ENOTSUP)
"""What systems say that flush files alone: Windows, and some file systems of networks."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say of what cannot be written what is left.

    Raises
    ------
    OutputError
        In place of an error of the disk.
    """
    try:
        yield
    except OutputError:  # an OSError too, but it says what is wrong already
        raise
    except OSError as error:
        # Of several files that are renamed, the error knows which.
        place = error.filename2 or path
        raise OutputError(
            f"{place}: cannot be written ({error.strerror or error}); what was finished is kept: "
            "see to its folder and the space there, and continue with --resume"
        ) from error


@contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """Temporary paths, renamed together when the block succeeds; errors as of `writing`."""
    with writing(paths[0]), renamed(*paths) as parts:
        yield parts


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell what cannot be read from what is damaged or absent.

    Raises
    ------
    SweepError
        In place of an error of the disk other than that there is no file.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SweepError(
            f"{path}: cannot be read ({error.strerror or error}), so nobody can tell whether it is "
            "damaged; leave it there, see to the disk, the permissions and the limit of open "
            "files, and do the same again"
        ) from error


def flush(path: Path) -> None:
    """Onto the disk before a rename, so that a power cut leaves no whole name on torn data."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_names(folders: Iterable[Path]) -> None:
    """What was renamed or made in folders, onto the disk, before what depends on it is done."""
    for folder in folders:
        try:
            flush(folder)
        except OSError as error:
            if error.errno not in _NO_FOLDERS:
                raise


def lock(file: Any, folder: Path) -> None:
    """Lock a folder by an open file of it. The lock goes with the process, however it ends.

    Raises
    ------
    SweepError
        Another process has it.
    OutputError
        The file system has no locks, or no more of them.
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
