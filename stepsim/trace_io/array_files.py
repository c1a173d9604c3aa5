"""Arrays in NumPy files, read by pieces: only what is asked for is in memory.

An array of a .npy file is read from where it lies. One in an archive is read from front to back;
for any other order it is taken into memory if it is small, else unpacked to a temporary file.
"""

from __future__ import annotations

import io
import math
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.files import damaged

__all__ = ["ArrayFile", "archive_names", "open_array"]

_BLOCK_BYTES = 8 << 20
_MAX_UNPACKED_BYTES = 32 << 20
"""Bytes of an archived array that are taken into memory."""


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """An array [rows, ...] in a file.

    Attributes:
        path, kind, name: the file, ``npy`` or ``npz``, and the array in an archive.
        dtype, shape: as the header says.
        fortran: the first dim varies fastest.
        header_bytes: where the values begin.
        unpacked: the array as a file that can be read at any place.
    """

    path: Path
    kind: str
    name: str | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    header_bytes: int
    unpacked: Callable[[], IO[bytes]]

    @property
    def row_bytes(self) -> int:
        """Bytes of one element of the first dim."""
        return max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)

    def read(
        self, first: int = 0, count: int | None = None, layer: int | None = None
    ) -> npt.NDArray[Any]:
        """Rows ``first`` to ``first + count - 1``, of all dims or of index ``layer`` of the second.

        Memory is that of the result and of one piece.

        Raises:
            TraceError: the file is truncated or damaged.
        """
        if not self.shape:
            with self._anywhere() as file:
                file.seek(self.header_bytes)
                return self._values(file, 1).reshape(())
        rows = self.shape[0] - first if count is None else count
        inner = self.shape[1:] if layer is None else self.shape[2:]
        out = np.empty((rows, *inner), dtype=self.dtype)
        with self._anywhere() as file:
            if self.fortran:
                self._read_columns(file, first, layer, out)
            else:
                self._read_rows(file, first, layer, out)
        return out

    def blocks(self, rows: int) -> Iterator[npt.NDArray[Any]]:
        """The array in pieces of at most ``rows`` rows; one empty piece if it has none.

        Raises:
            TraceError: the file is truncated or damaged.
        """
        if self.shape[0] == 0:
            yield np.empty(self.shape, dtype=self.dtype)
        elif self.fortran:
            for first in range(0, self.shape[0], rows):
                yield self.read(first, min(rows, self.shape[0] - first))
        else:
            with _opened(self.path, self.kind, self.name) as file:
                self._skip_header(file)
                for first in range(0, self.shape[0], rows):
                    count = min(rows, self.shape[0] - first)
                    values = self._values(file, count * math.prod(self.shape[1:]))
                    yield values.reshape(count, *self.shape[1:])

    def _read_rows(
        self, file: IO[bytes], first: int, layer: int | None, out: npt.NDArray[Any]
    ) -> None:
        file.seek(self.header_bytes + first * self.row_bytes)
        most = max(1, _BLOCK_BYTES // self.row_bytes)
        for at in range(0, len(out), most):
            count = min(most, len(out) - at)
            block = self._values(file, count * math.prod(self.shape[1:]))
            block = block.reshape(count, *self.shape[1:])
            out[at : at + count] = block if layer is None else block[:, layer]

    def _read_columns(
        self, file: IO[bytes], first: int, layer: int | None, out: npt.NDArray[Any]
    ) -> None:
        """Each index of the inner dims is a column of consecutive values."""
        for inner in np.ndindex(*out.shape[1:]):
            whole = inner if layer is None else (layer, *inner)
            place = int(np.ravel_multi_index(whole, self.shape[1:], order="F")) if whole else 0
            file.seek(self.header_bytes + (place * self.shape[0] + first) * self.dtype.itemsize)
            out[(slice(None), *inner)] = self._values(file, len(out))

    @contextmanager
    def _anywhere(self) -> Iterator[IO[bytes]]:
        if self.kind == "npy":
            with _opened(self.path, self.kind, self.name) as file:
                yield file
        else:
            yield self.unpacked()

    def _skip_header(self, file: IO[bytes]) -> None:
        if len(file.read(self.header_bytes)) != self.header_bytes:
            raise damaged(self.path, self.kind, EOFError("the header is cut off"))

    def _values(self, file: IO[bytes], count: int) -> npt.NDArray[Any]:
        wanted = count * self.dtype.itemsize
        try:
            data = file.read(wanted)
        except Exception as error:  # zipfile and zlib raise nearly anything
            raise damaged(self.path, self.kind, error) from error
        if len(data) != wanted:
            raise damaged(self.path, self.kind, EOFError(f"{len(data)} of {wanted} bytes are left"))
        return np.frombuffer(data, dtype=self.dtype)


def open_array(path: Path, kind: str, name: str | None = None) -> ArrayFile:
    """The array of a .npy file, or the one called ``name`` in a .npz file.

    Raises:
        TraceError: the file is truncated or damaged, or holds Python objects.
    """
    try:
        found = _size(path, kind, name)
        with _opened(path, kind, name) as file:
            version = np.lib.format.read_magic(file)
            header = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = header(file)
            begin = file.tell()
    except TraceError:
        raise
    except Exception as error:  # a damaged header makes NumPy and zipfile raise nearly anything
        raise damaged(path, kind, error) from error
    if dtype.hasobject:
        raise TraceError(
            f"{path}: holds Python objects (object array), expected integers; rows of "
            "different lengths or None make one, mend them and save again"
        )
    size = begin + math.prod(shape) * dtype.itemsize
    # Before memory is taken for what a damaged header says.
    if found < size or min(shape, default=0) < 0:
        raise damaged(path, kind, EOFError(f"{found} of {size} bytes are there"))
    return ArrayFile(
        path, kind, name, dtype, shape, fortran, begin, _Unpacker(path, kind, name, size)
    )


def archive_names(path: Path) -> list[str]:
    """Names of the arrays in a .npz file.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except Exception as error:  # zipfile raises nearly anything
        raise damaged(path, "npz", error) from error


class _Unpacker:
    """Unpacks an archived array when it is first asked for."""

    def __init__(self, path: Path, kind: str, name: str | None, size: int) -> None:
        self._place = path, kind, name
        self._small = size <= _MAX_UNPACKED_BYTES
        self._file: IO[bytes] | None = None

    def __call__(self) -> IO[bytes]:
        if self._file is None:
            path, kind, _ = self._place
            # Kept open as long as the array may be read.
            target: IO[bytes] = io.BytesIO() if self._small else tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, target.close)
            try:
                with _opened(*self._place) as file:
                    shutil.copyfileobj(file, target, _BLOCK_BYTES)
            except Exception as error:  # zipfile and zlib raise nearly anything
                raise damaged(path, kind, error) from error
            self._file = target
        return self._file


def _size(path: Path, kind: str, name: str | None) -> int:
    if kind == "npy":
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(f"{name}.npy").file_size


@contextmanager
def _opened(path: Path, kind: str, name: str | None) -> Iterator[IO[bytes]]:
    if kind == "npy":
        with path.open("rb") as file:
            yield file
    else:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
            yield member
