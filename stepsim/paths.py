"""Paths that are not valid file names, or that look like something else."""

from __future__ import annotations

import os
from pathlib import Path

from stepsim.errors import StepSimError


def exists(path: Path, error: type[StepSimError]) -> bool:
    """Like `Path.exists`, with an error of ours for a path that cannot be accessed.

    Raises
    ------
    error : the path is too long, has a null character, or leads through an inaccessible folder.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as problem:
        errno = getattr(problem, "errno", None)
        reason = os.strerror(errno) if errno else str(problem)
        raise error(
            f"{str(path)!a:.200}: cannot be accessed: {reason}; name a file or a folder"
        ) from problem
    return True


def local_path(path: Path) -> str:
    """The path for Arrow, which takes ``sweep:1/runs`` for a URI of the scheme ``sweep``."""
    return str(path.absolute() if ":" in str(path) else path)
