"""Fail when tests that need the shared data were skipped although the data is there.

Usage: check_skips.py JUNIT_XML SHARED_FOLDER
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def skipped_for_shared_data(report: Path) -> list[str]:
    """``test: reason`` of each skipped test whose reason speaks of the shared data."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        for skipped in case.iter("skipped"):
            reason = skipped.get("message", "")
            if "shared" in reason.lower() or "STEPSIM_" in reason:
                found.append(f"{case.get('classname')}::{case.get('name')}: {reason}")
    return found


def main(report: str, shared: str) -> int:
    skipped = skipped_for_shared_data(Path(report))
    if not (Path(shared) / "data").is_dir():
        sys.stdout.write(f"shared data not at {shared}: {len(skipped)} tests skipped for it\n")
        return 0
    if skipped:
        listing = "\n  ".join(skipped)
        sys.stderr.write(
            f"the shared data is at {shared}, but {len(skipped)} tests were skipped for want of "
            f"it:\n  {listing}\n"
        )
        return 1
    sys.stdout.write(f"all tests of the shared data at {shared} ran\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
