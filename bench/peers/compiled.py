"""The peers in C++: compiled once into ``build/peers`` and run as processes of their own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["FLAGS", "Compiled", "compiler", "compiler_version"]

FLAGS: Final = ("-std=c++17", "-O3", "-march=native")
_HERE: Final = Path(__file__).parent
_BUILD: Final = _HERE.parents[1] / "build" / "peers"


def compiler() -> list[str] | None:
    """The command of ``CXX``, or the first C++ compiler on the path."""
    named = os.environ.get("CXX")
    if named:
        command = shlex.split(named)
        if shutil.which(command[0]) is None:
            raise SystemExit(f"CXX names {command[0]!r}, which is no program on the path")
        return command
    found = shutil.which("c++") or shutil.which("g++")
    return None if found is None else [found]


def compiler_version(command: list[str]) -> str:
    """What the compiler says of itself, in one line."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.partition("\n")[0]


class Compiled:
    """One C++ peer."""

    def __init__(self, command: list[str], name: str, *flags: str) -> None:
        _BUILD.mkdir(parents=True, exist_ok=True)
        self._program = _BUILD / name
        source = _HERE / f"{name}.cpp"
        subprocess.run(
            [*command, *FLAGS, *flags, str(source), "-o", str(self._program)], check=True
        )

    def simulate(self, network: str, repeats: int) -> tuple[int, int, float]:
        """Cycles, firings, and the least CPU seconds of a run."""
        done = subprocess.run(
            [str(self._program), str(repeats)], input=network, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{self._program.name} failed: {done.stderr.strip()}")
        cycles, firings, seconds = done.stdout.split()
        return int(cycles), int(firings), float(seconds)
