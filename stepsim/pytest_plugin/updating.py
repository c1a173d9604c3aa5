"""The end of a session: baselines are written, and remarks are reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepsim.arguments import counted
from stepsim.errors import StepSimError
from stepsim.pytest_plugin.baselines import Baselines, read_baselines, write_baselines
from stepsim.pytest_plugin.entries import Entry
from stepsim.pytest_plugin.places import update_command

Measured = tuple[Mapping[str, Any], bool]
"""The measurements of a test, and whether the test passed."""


def update(root: Path, measured: Iterable[Measured]) -> tuple[list[str], bool]:
    """Write what the tests measured to their files; a line for each, and whether all are written.

    Entries of tests that did not run stay. Those of a test that ran are replaced; where it failed,
    only those that it got to.
    """
    files: dict[str, list[Measured]] = {}
    for one in measured:
        files.setdefault(one[0]["file"], []).append(one)
    lines, complete = [], True
    for name, tests in sorted(files.items()):
        try:
            lines.append(_update_file(root / name, name, tests))
        except StepSimError as error:
            lines.append(f"error: {error}")
            complete = False
    return lines, complete


def _update_file(path: Path, name: str, tests: Sequence[Measured]) -> str:
    found = read_baselines(path)
    written = unchanged = removed = 0
    for one, passed in tests:
        before = found.pop(one["test"], {})
        checks = {check: Entry(**entry) for check, entry in one["checks"].items()}
        stale = before.keys() - checks.keys()
        if passed:
            removed += len(stale)
        else:
            checks |= {check: before[check] for check in stale}
        same = sum(before.get(check) == entry for check, entry in checks.items())
        unchanged += same
        written += len(checks) - same
        if checks:
            found[one["test"]] = checks
    ran = {one["test"] for one, _ in tests}
    kept = sum(len(checks) for test, checks in found.items() if test not in ran)
    write_baselines(path, found)
    parts = [f"{counted(written, 'baseline')} written"]
    parts += [f"{unchanged} unchanged"] * bool(unchanged)
    parts += [f"{removed} removed"] * bool(removed)
    parts += [f"{kept} of tests that did not run kept"] * bool(kept)
    return f"{name}: {', '.join(parts)}"


def closing_lines(root: Path, invoked_from: Path, measured: Iterable[Measured]) -> list[str]:
    """Remarks on tests that passed, a line each.

    Such as a baseline of a test that passed without the check: a guard that is gone fails nothing.
    """
    lines = []
    known: dict[str, Baselines] = {}
    for one, passed in measured:
        if not passed:
            continue
        file, test = one["file"], one["test"]
        lines += [f"{file}: {note}" for note in one["notes"]]
        if file not in known:
            try:
                known[file] = read_baselines(root / file)
            except StepSimError as error:
                known[file] = {}
                lines.append(f"error: {error}")
        unchecked = sorted(known[file].get(test, {}).keys() - one["checks"].keys())
        if unchecked:
            command = update_command(root / one["test_file"], invoked_from)
            names = ", ".join(f"'{name}'" for name in unchecked)
            lines.append(
                f"{file}: {test}: passed, but did not check {names}, which the file has; "
                f"{command} removes what is no longer checked"
            )
    return lines
