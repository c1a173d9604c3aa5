"""Where the baselines of a test are, by which name, and the command that records them.

Imported in every session of pytest, so that it imports nothing of the package.

PYTEST_DONT_REWRITE: nothing here is an assertion of a test.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def baseline_file(test_file: Path) -> Path:
    """Where the baselines of a test file are."""
    return test_file.with_suffix(".cycles.json")


def relative_to(path: Path, root: Path) -> str:
    """The path as seen from the root, which another process may have somewhere else."""
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return str(path)


def update_command(test_file: Path, folder: Path) -> str:
    """What to enter in the folder to record the baselines of a test file."""
    try:
        shown = os.path.relpath(test_file, folder)
    except ValueError:  # on another drive
        shown = str(test_file)
    return f"pytest {shlex.quote(shown)} --update-cycles"
