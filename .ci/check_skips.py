"""Fail if tests were skipped for lack of the shared data, although it exists, or of a browser.

Also when those of the browser, of the notebooks and of PyTorch are in none of the reports, and when
a test looked for the shared data outside of the report of those that replay it.

Usage: check_skips.py SHARED_FOLDER JUNIT_XML...
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def ran(report: Path) -> set[str]:
    """Each test that was not skipped."""
    return {
        f"{case.get('classname')}::{case.get('name')}"
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("skipped") is None
    }


def skips(report: Path) -> list[tuple[str, str]]:
    """Each skipped test and the reason."""
    return [
        (f"{case.get('classname')}::{case.get('name')}", skipped.get("message", ""))
        for case in ElementTree.parse(report).iter("testcase")
        for skipped in case.iter("skipped")
    ]


_NEVER = {
    "no browser": "a browser",
    "no notebooks": "nbformat, nbclient or ipykernel",
    "no PyTorch": "PyTorch, ONNX or onnxscript",
}
"""Texts in the reasons of skips that `.ci/run` should have prevented, and what was missing."""

_RECORDED = "recorded.xml"
"""The report of `make test-recorded`, which alone may look for the shared data."""

_NEEDED = (
    "tests.report.html.test_browser::",
    "tests.test_notebooks::test_a_notebook_runs[",
    "tests.design.operators.test_torch_import::",
    "tests.design.operators.test_onnx_import::",
)
"""Prefixes of names of tests, some of which must have run."""


def _wants_shared(reason: str) -> bool:
    return "shared" in reason.lower() or "STEPSIM_" in reason


def main(shared: str, *reports: str) -> int:
    found = [skip for report in reports for skip in skips(Path(report))]
    for phrase, wanted in _NEVER.items():
        skipped = [f"{test}: {reason}" for test, reason in found if phrase in reason]
        if skipped:
            listing = "\n  ".join(skipped)
            sys.stderr.write(
                f"{len(skipped)} tests were skipped for lack of {wanted}:\n  {listing}\n"
            )
            return 1
    names = {name for report in reports for name in ran(Path(report))}
    for start in _NEEDED:
        if not any(name.startswith(start) for name in names):
            sys.stderr.write(f"no test {start}... ran, in {', '.join(reports)}\n")
            return 1
    unmarked = [
        f"{test}: {reason}"
        for report in reports
        if Path(report).name != _RECORDED
        for test, reason in skips(Path(report))
        if _wants_shared(reason)
    ]
    if unmarked:
        listing = "\n  ".join(unmarked)
        sys.stderr.write(
            f"{len(unmarked)} tests look for the shared data and lack the marker `recorded`, see "
            f"tests/shared.py:\n  {listing}\n"
        )
        return 1
    skipped = [f"{test}: {reason}" for test, reason in found if _wants_shared(reason)]
    if not (Path(shared) / "data").is_dir():
        sys.stdout.write(f"shared data not at {shared}: {len(skipped)} tests skipped for it\n")
        return 0
    if skipped:
        listing = "\n  ".join(skipped)
        sys.stderr.write(
            f"the shared data is at {shared}, but {len(skipped)} tests were skipped for lack of "
            f"it:\n  {listing}\n"
        )
        return 1
    sys.stdout.write(f"all tests of the shared data at {shared} ran\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
