"""What the changelog announces since a release."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from packaging.version import Version

from tests.promises.breaks import Break

_HEADINGS: Final = ("Changed", "Removed", "Timing changes")
"""Where changes are announced that somebody may have to follow."""


def since(changelog: str, release: str) -> str:
    """What stands above the section of a release; all, where it has none."""
    return re.split(rf"^## \[{re.escape(release)}\]", changelog, maxsplit=1, flags=re.MULTILINE)[0]


def entries(section: str) -> list[str]:
    """The entries below the headings for changes."""
    found: list[str] = []
    heading = ""
    for line in section.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif heading in _HEADINGS and line.startswith("- "):
            found.append(line[2:])
        elif heading in _HEADINGS and found and line.strip():
            found[-1] += f" {line.strip()}"
    return found


def unannounced(broken: Iterable[Break], section: str) -> list[Break]:
    """Those that no entry names: one entry has all words of a break, each as code."""
    codes = [" ".join(re.findall(r"`([^`]+)`", entry)) for entry in entries(section)]
    return [
        one for one in broken if not any(all(_names(code, w) for w in one.words) for code in codes)
    ]


def _names(code: str, word: str) -> bool:
    plain = word.lstrip("*")
    return re.search(rf"(?<![\w-]){re.escape(plain)}(?![\w-])", code) is not None


def needed_version(release: str, broken: Collection[Break]) -> Version:
    """The least version that may break promises of a release, from 1.0 on the next major one."""
    made = Version(release)
    return Version(f"{made.major + 1}.0.0") if made.major and broken else made
