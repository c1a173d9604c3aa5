"""How much memory a run can still have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def free_bytes(root: Path = Path("/")) -> float:
    """Bytes that can be had without swapping: of the system, and of each control group of this
    process that has a limit (version 2). Infinite where the system does not say.

    Parameters
    ----------
    root : the folder that ``proc`` and ``sys`` are in.
    """
    free = [_available(root / "proc" / "meminfo"), *map(_left, _groups(root))]
    return min((amount for amount in free if amount is not None), default=float("inf"))


def _available(meminfo: Path) -> int | None:
    for line in _text(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            return _number(line.split()[1], 1024)
    return None


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the process's group and of those around it, whose limits hold as well."""
    top = root / "sys" / "fs" / "cgroup"
    yield top
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        if line.startswith("0::/"):
            folder = top
            # Groups outside the process's namespace are ``..``, and not to be seen.
            for part in line.removeprefix("0::/").split("/"):
                if part in ("", ".."):
                    return
                folder /= part
                yield folder


def _left(group: Path) -> int | None:
    """What its limit leaves to a group; cached files that nobody uses make room for others."""
    most = _number(_text(group / "memory.max").strip())
    used = _number(_text(group / "memory.current").strip())
    if most is None or used is None:
        return None
    cached = 0
    for line in _text(group / "memory.stat").splitlines():
        if line.startswith("inactive_file "):
            cached = _number(line.split()[1]) or 0
    return max(0, most - max(0, used - cached))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


def _number(text: str, unit: int = 1) -> int | None:
    """None for what is no number, such as a limit of ``max``."""
    return int(text) * unit if text.isdecimal() else None
