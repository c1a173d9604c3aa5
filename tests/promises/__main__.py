"""List what has changed since the snapshot, or renew it: ``python -m tests.promises --renew``."""

from __future__ import annotations

import argparse
import sys

from packaging.version import Version

from stepsim import __version__
from tests.promises.breaks import breaks
from tests.promises.changelog import needed_version, since, unannounced
from tests.promises.snapshot import CHANGELOG, SNAPSHOT, read, text_of
from tests.promises.surface import surface


def main() -> int:
    """The exit code is 1 where something was changed that nothing announces."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises", description=__doc__)
    parser.add_argument("--renew", action="store_true", help="write the snapshot of this version")
    renew = parser.parse_args().renew
    release, before = read(SNAPSHOT)
    now = surface()
    broken = breaks(before, now)
    silent = unannounced(broken, since(CHANGELOG.read_text(encoding="utf-8"), release))
    for one in broken:
        sys.stdout.write(f"{'NOT ANNOUNCED ' if one in silent else 'announced '}{one}\n")
    if silent:
        sys.stdout.write(
            "Name them in CHANGELOG.md as code, below the heading Changed or Removed.\n"
        )
        return 1
    least = needed_version(release, broken)
    if renew and Version(__version__) < least:
        sys.stdout.write(f"These changes need version {least} or later, not {__version__}.\n")
        return 1
    if renew:
        SNAPSHOT.write_text(text_of(__version__, now), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
