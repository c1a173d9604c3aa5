"""Instructions of a piece of a process, counted by valgrind: the same under any load.

The process runs under valgrind's callgrind, which counts only between the requests made here. A
request is a sequence of instructions without effect that valgrind recognizes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

__all__ = ["ENVIRONMENT", "can_count", "counted", "counts_of", "fixed_environment"]

ENVIRONMENT: Final = {
    # Machine code and hashes that are the same on every computer.
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": "",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_USER_SIMD_LEVEL": "AVX2",
}
"""Of a process whose instructions are counted."""

# rax points at the request and its five arguments, rdx has the result: valgrind.h, amd64-linux.
_REQUEST: Final = bytes.fromhex(
    "4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3".replace(" ", "")
)
_RUNNING: Final = 0x1001
_CALLGRIND: Final = ord("C") << 24 | ord("T") << 16
_ZERO, _DUMP_AT, _START, _STOP = (_CALLGRIND + request for request in (1, 3, 4, 5))


def can_count() -> bool:
    """Whether valgrind is here and knows this machine's instructions."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and shutil.which("valgrind") is not None
    )


def fixed_environment() -> dict[str, str]:
    """The environment of this process, with :data:`ENVIRONMENT`."""
    return os.environ | ENVIRONMENT


class _Requests:
    def __init__(self) -> None:
        self._code = mmap.mmap(
            -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        )
        self._code.write(_REQUEST)
        place = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(place)

    def make(self, request: int, argument: int = 0) -> int:
        words = (ctypes.c_uint64 * 6)(request, argument)
        return int(self._call(ctypes.addressof(words)))


_requests: Any = None


@contextmanager
def counted(name: str) -> Iterator[None]:
    """Count the instructions of the block, under this name."""
    global _requests
    if _requests is None:
        _requests = _Requests()
        if not _requests.make(_RUNNING):
            raise RuntimeError("counted: this process does not run under valgrind")
    text = ctypes.create_string_buffer(name.encode())
    _requests.make(_START)
    _requests.make(_ZERO)  # a stop leaves the counts of the last dump, from which it would subtract
    try:
        yield
    finally:
        _requests.make(_DUMP_AT, ctypes.addressof(text))
        _requests.make(_STOP)


def counts_of(command: list[str]) -> dict[str, int]:
    """Instructions of every block that the command counts, by name."""
    with TemporaryDirectory() as folder:
        options = ["--tool=callgrind", "--instr-atstart=no", "--quiet"]
        out = f"--callgrind-out-file={folder}/counts"
        done = subprocess.run(
            ["valgrind", *options, out, *command],
            env=fixed_environment(), capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"under valgrind, {' '.join(command)} failed:\n{done.stderr[-2000:]}")
        files = sorted(Path(folder).iterdir(), key=_dump_number)
        return dict(filter(None, map(_count, files)))


def _dump_number(path: Path) -> int:
    suffix = path.name.rpartition(".")[2]
    return int(suffix) if suffix.isdecimal() else 0


def _count(path: Path) -> tuple[str, int] | None:
    text = path.read_text(errors="replace")
    name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, flags=re.MULTILINE)
    total = re.search(r"^(?:summary|totals): (\d+)$", text, flags=re.MULTILINE)
    return (name[1], int(total[1])) if name and total else None
