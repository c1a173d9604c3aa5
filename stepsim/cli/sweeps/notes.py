"""Notes on runs of a sweep that are missing or failed."""

from __future__ import annotations

from pathlib import Path

import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note


def note_missing(folder: Path, missing: int) -> None:
    """Report the number of missing runs, if any."""
    if missing:
        note(f"{folder}: {counted(missing, 'run')} not done yet; continue the sweep with --resume")


def failures_query(folder: Path) -> str:
    """The command that shows why runs failed."""
    return f'stepsim sweep query {folder} "SELECT design, message FROM failures"'


def deadlock_fixes(folder: Path) -> dict[str, str]:
    """The least fix of a deadlock of each design point, in words."""
    rows = stepsim.sweep.read_failures(folder, ["design", "message", "fix"]).to_pylist()
    found: dict[str, str] = {}
    for row in rows:
        if row["fix"] is not None:
            found.setdefault(row["design"], row["message"].splitlines()[-1])
    return found
