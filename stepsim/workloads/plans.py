"""Plan folders written by ``stepsim compile``, as found by ``stepsim run DIR``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepsim.deferred import deferred
from stepsim.errors import WorkloadError

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = deferred("hashlib")

PLAN = "plan.yaml"
"""The file that identifies a folder as a plan."""


def plan_file(text: str, folder: Path | None = None) -> Path | None:
    """The plan in a folder, or a file named ``plan.yaml``; None for other paths."""
    try:
        path = (folder or Path()) / text
        if path.name == PLAN and path.is_file():
            return path
        return path / PLAN if path.is_dir() and (path / PLAN).is_file() else None
    except (OSError, ValueError):  # not a valid file name: too long, or with a null character
        return None


def plan_digest(path: Path) -> str:
    """SHA-256 of the file.

    Raises
    ------
    WorkloadError : it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:
        code = getattr(error, "errno", None)
        reason = os.strerror(code) if code else str(error)
        raise WorkloadError(f"{path}: cannot be read: {reason}; name a folder of a plan") from error
