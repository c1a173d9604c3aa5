"""Faults of the disk and of memory, one at a time, at every place where there can be one.

A clean run counts the calls that write, rename, flush, remove or allocate. Then the first of them
fails in one run, the second in the next, and so on. What is watched does not depend on how the code
that is tested is written.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

__all__ = ["Faults", "MemoryFaults"]

_ERRORS = (errno.ENOSPC, errno.EIO, errno.EINTR, errno.EDQUOT)
_WRITING = frozenset("wax+")


class Faults:
    """Counts the calls that change files below a folder, and allocations; one of them fails.

    Half of what was to be written is there when a write fails, as on a full disk.

    Args:
        folder: other files are left alone.
        failing: which call fails, from 0; None: none.

    Attributes:
        calls: the calls so far, each by what it does and to which file.
    """

    def __init__(self, folder: Path, failing: int | None = None) -> None:
        self.calls: list[str] = []
        self._folder = os.path.realpath(folder)
        self._failing = failing
        self._handles: set[int] = set()
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Faults:
        for name in ("mkdir", "replace", "rename", "truncate", "unlink", "remove", "rmdir"):
            self._replace(os, name, self._of_path)
        for name in ("fsync", "ftruncate"):
            self._replace(os, name, self._of_handle)
        self._replace(os, "open", self._opening_handle)
        self._replace(os, "write", self._writing_handle)
        self._replace(os, "close", self._closing_handle)
        self._replace(io, "open", self._opening)
        self._replace(pq.ParquetWriter, "__init__", self._of_writer)
        self._replace(pq.ParquetWriter, "write_table", self._after)
        self._replace(pq.ParquetWriter, "close", self._of_handle)
        self._replace(pa, "concat_tables", self._allocating)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    @property
    def failed(self) -> bool:
        """Whether the call that should fail was made."""
        return self._failing is not None and self._failing < len(self.calls)

    def _replace(self, owner: Any, name: str, wrap: Callable[..., Any]) -> None:
        self._patch.setattr(owner, name, wrap(getattr(owner, name), name))

    def due(self, call: str) -> bool:
        """Note a call; whether it is the one to fail."""
        self.calls.append(call)
        return len(self.calls) - 1 == self._failing

    def error(self, path: Any = None, other: Any = None) -> OSError:
        """What the disk says, another thing every time; of which files, where they have names."""
        number = _ERRORS[len(self.calls) % len(_ERRORS)]
        return OSError(number, os.strerror(number), path, None, other)

    def _mine(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.path.realpath(path).startswith(
            self._folder
        )

    def _of_path(self, real: Any, name: str) -> Any:
        def call(path: Any, *args: Any, **options: Any) -> Any:
            if self._mine(path) and self.due(f"{name} {Path(path).name}"):
                other = args[0] if name in ("replace", "rename") else None
                raise self.error(path, other)
            return real(path, *args, **options)

        return call

    def _of_handle(self, real: Any, name: str) -> Any:
        def call(handle: Any, *args: Any) -> Any:
            if self.due(name):
                raise self.error()
            return real(handle, *args)

        return call

    def _of_writer(self, real: Any, name: str) -> Any:
        def call(writer: Any, where: Any, *args: Any, **options: Any) -> None:
            if self.due(f"open {Path(where).name}"):
                raise self.error()
            real(writer, where, *args, **options)

        return call

    def _after(self, real: Any, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            done = real(*args, **options)
            if self.due(name):
                raise self.error()
            return done

        return call

    def _opening(self, real: Any, name: str) -> Any:
        def call(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not (self._mine(file) and _WRITING & set(mode)):
                return real(file, mode, *args, **options)
            if self.due(f"open {Path(file).name}"):
                raise self.error()
            return _File(real(file, mode, *args, **options), self)

        return call

    def _opening_handle(self, real: Any, name: str) -> Any:
        def call(path: Any, flags: int, *args: Any, **options: Any) -> Any:
            if not (self._mine(path) and flags & (os.O_WRONLY | os.O_RDWR)):
                return real(path, flags, *args, **options)
            if self.due(f"open {Path(path).name}"):
                raise self.error()
            handle = real(path, flags, *args, **options)
            self._handles.add(handle)
            return handle

        return call

    def _writing_handle(self, real: Any, name: str) -> Any:
        def call(handle: int, data: Any) -> Any:
            if handle in self._handles and self.due(name):
                real(handle, data[: len(data) // 2])
                raise self.error()
            return real(handle, data)

        return call

    def _closing_handle(self, real: Any, name: str) -> Any:
        def call(handle: int) -> None:
            self._handles.discard(handle)
            real(handle)

        return call

    def _allocating(self, real: Any, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if self.due(name):
                # As what pyarrow raises: an error of memory that Arrow's own handlers catch, too.
                raise pa.ArrowMemoryError(f"{name} failed")
            return real(*args, **options)

        return call


class _File:
    """An open file whose writes and whose end can fail."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file = file
        self._faults = faults
        self._written = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: Any) -> Any:
        self._written = True
        if self._faults.due("write"):
            self._file.write(data[: len(data) // 2])
            raise self._faults.error()
        return self._file.write(data)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        self._file.close()
        if self._written and self._faults.due("close"):
            raise self._faults.error()


class MemoryFaults:
    """Memory ends at one line of some modules: any line may allocate.

    Args:
        modules: where lines count.
        failing: which line fails, in the order of execution, from 0; None: none.

    Attributes:
        lines: the lines that ran, as ``file:number``.
    """

    def __init__(self, modules: Collection[ModuleType], failing: int | None = None) -> None:
        self.lines: list[str] = []
        self._files = {module.__file__ for module in modules}
        self._failing = failing
        self._before: Any = None

    def __enter__(self) -> MemoryFaults:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, _: object) -> Any:
        return self._ran if frame.f_code.co_filename in self._files else None

    def _ran(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            self.lines.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
            if len(self.lines) - 1 == self._failing:
                raise MemoryError
        return self._ran
