"""What processor this is: the key of code compiled for it, and the levels whose code it runs.

Levels are those of the x86-64 psABI, which compilers and distributions share.
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from pathlib import Path
from typing import Final

_CPUINFO = Path("/proc/cpuinfo")
_DISTINGUISHING = (
    "vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU architecture",
    "CPU variant", "CPU part", "Features",
)  # fmt: skip

_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
_NAMES_OF_LLVM: Final = {
    "lahf_lm": "sahf", "pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "bmi1": "bmi",
    "abm": "lzcnt",
}  # fmt: skip
"""Where they differ from those of Linux."""

_OF_MACHINE: Final[dict[str, dict[str, tuple[str, frozenset[str]]]]] = {
    "x86_64": {"x86-64-v3": ("x86-64-v3", _V3), "x86-64-v2": ("x86-64-v2", _V2)},
    "arm64": {"arm64": ("generic", frozenset())},
}

_MACHINE = {"amd64": "x86_64", "aarch64": "arm64"}.get(
    platform.machine().lower(), platform.machine().lower()
)

LEVELS: Final[dict[str, str]] = {
    level: name for level, (name, _) in _OF_MACHINE.get(_MACHINE, {}).items()
}
"""Levels of this kind of machine, best first: what LLVM calls the processor."""


def settings_of(level: str) -> tuple[tuple[str, str], ...]:
    """The settings of the compiler that make code for a level, and no others."""
    return ("CPU_NAME", repr(LEVELS[level])), ("CPU_FEATURES", repr(""))


@cache
def processor() -> tuple[str, ...]:
    """What distinguishes processors for which different code is made."""
    known = _cpuinfo()
    if known:
        return (sys.platform, _MACHINE, *(f"{name}: {text}" for name, text in known.items()))
    from llvmlite import binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return (sys.platform, _MACHINE, llvm.get_host_cpu_name(), features)


def levels_that_run() -> list[str]:
    """The levels that this processor has, best first."""
    found = _flags()
    return [level for level in LEVELS if _OF_MACHINE[_MACHINE][level][1] <= found]


def _flags() -> frozenset[str]:
    """Flags of the processor by the names of Linux."""
    known = _cpuinfo()
    if known:
        return frozenset(known.get("flags", "").split())
    from llvmlite import binding as llvm

    found = {name for name, there in llvm.get_host_cpu_features().items() if there}
    return frozenset(flag for flag in _V3 if _NAMES_OF_LLVM.get(flag, flag) in found)


def _cpuinfo() -> dict[str, str]:
    """The fields that Linux lists for the first processor; no fields on other systems."""
    if sys.platform != "linux" or not _CPUINFO.exists():
        return {}
    known: dict[str, str] = {}
    with _CPUINFO.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:  # those of the other processors are made only when they are read
            name, _, text = (part.strip() for part in line.partition(":"))
            if not name and known:
                break
            if name in _DISTINGUISHING:
                known[name] = text
    return known
