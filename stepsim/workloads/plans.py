"""The folders that ``stepsim compile`` writes, as ``stepsim run DIR`` finds them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from stepsim.errors import WorkloadError

__all__ = ["PLAN", "plan_digest", "plan_file"]

PLAN = "plan.yaml"
"""The file by which a folder is known as a plan."""


def plan_file(text: str, folder: Path | None = None) -> Path | None:
    """The plan of a folder that is named, or of a file named ``plan.yaml``; else None."""
    try:
        path = (folder or Path()) / text
        if path.name == PLAN and path.is_file():
            return path
        return path / PLAN if path.is_dir() and (path / PLAN).is_file() else None
    except (OSError, ValueError):  # no name of a file: too long, a null character
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
