"""Arrays in NumPy files, read by pieces: only what is asked for is in memory.

An array of a .npy file is read from where it lies. One in an archive is read from front to back;
for any other order it is taken into memory if it is small, else unpacked to a temporary file.
"""

from __future__ import annotations

import io
import math
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.files import choose_array, damaged, unreadable
from stepsim.trace_io.validate import check_weights_shape

__all__ = ["ArrayFile", "archive_names", "array_of_bytes", "open_array", "open_routing"]

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
            shape, fortran, dtype = _header(file)
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


def open_routing(path: Path, kind: str) -> tuple[ArrayFile, ArrayFile | None]:
    """The expert ids in a .npy or .npz file, and their weights if there are.

    Raises:
        TraceError: as `open_array`, it is not clear which array is meant, or the weights have
            another shape.
    """
    chosen = weights = None
    if kind == "npz":
        names = archive_names(path)
        chosen = choose_array(path, names, ("experts", "data"), ("weights",))
        if "weights" in names and chosen != "weights":
            weights = open_array(path, kind, "weights")
    ids = open_array(path, kind, chosen)
    if weights is not None:
        check_weights_shape(weights.shape, ids.shape, str(path))
    return ids, weights


def array_of_bytes(data: bytes) -> npt.NDArray[Any]:
    """The array of a .npy file in memory.

    Raises:
        ValueError: it is none, is cut off, or holds Python objects.
    """
    file = io.BytesIO(data)
    try:
        shape, fortran, dtype = _header(file)
        size = file.tell() + math.prod(shape) * dtype.itemsize
        if len(data) < size or min(shape, default=0) < 0:
            raise ValueError(f"{len(data)} of {size} bytes are there")
        values = np.frombuffer(data, dtype, math.prod(shape), file.tell())
        return values.reshape(shape, order="F" if fortran else "C")
    except Exception as error:  # a damaged header makes NumPy raise nearly anything
        raise ValueError(str(error)) from error


def archive_names(path: Path) -> list[str]:
    """Names of the arrays in a .npz file.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    try:
        with _archive(path) as archive:
            names = archive.namelist()
    except TraceError:
        raise
    except Exception as error:  # zipfile raises nearly anything
        raise damaged(path, "npz", error) from error
    return [name.removesuffix(".npy") for name in names if name.endswith(".npy")]


class _Unpacker:
    """Unpacks an archived array when it is first asked for."""

    def __init__(self, path: Path, kind: str, name: str | None, size: int) -> None:
        self._place = path, kind, name
        self._size = size
        self._file: IO[bytes] | None = None

    def __call__(self) -> IO[bytes]:
        if self._file is None:
            self._file = self._unpack()
            # Kept open as long as the array may be read.
            weakref.finalize(self, self._file.close)
        return self._file

    def _unpack(self) -> IO[bytes]:
        target: IO[bytes] | None = None
        try:
            small = self._size <= _MAX_UNPACKED_BYTES
            target = io.BytesIO() if small else tempfile.TemporaryFile()  # noqa: SIM115
            for block in self._blocks():
                target.write(block)
            target.flush()
        except BaseException as error:
            if target is not None:
                with suppress(OSError):  # of what could not be written
                    target.close()
            if isinstance(error, OSError):
                raise self._no_room(error) from error
            raise
        return target

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of the array, and none of what may follow them."""
        path, kind, _ = self._place
        left = self._size
        try:
            with _opened(*self._place) as file:
                while left and (block := file.read(min(left, _BLOCK_BYTES))):
                    left -= len(block)
                    yield block
                file.read(1)  # zipfile compares the checksum when it meets the end
        except TraceError:
            raise
        except Exception as error:  # zipfile and zlib raise nearly anything
            raise damaged(path, kind, error) from error

    def _no_room(self, error: OSError) -> TraceError:
        path, _, name = self._place
        folder = tempfile.tempdir or "none"
        return TraceError(
            f"{path}: the array `{name}` needs {self._size} bytes in the folder of temporary files "
            f"({folder}), which cannot be written ({error.strerror}); make room there, or name "
            "another folder in the environment variable TMPDIR"
        )


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is in Fortran order, and dtype of a .npy file; the values come next."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _size(path: Path, kind: str, name: str | None) -> int:
    if kind == "npy":
        with _file(path) as file:
            return file.seek(0, io.SEEK_END)
    with _archive(path) as archive:
        return archive.getinfo(f"{name}.npy").file_size


@contextmanager
def _opened(path: Path, kind: str, name: str | None) -> Iterator[IO[bytes]]:
    if kind == "npy":
        with _file(path) as file:
            yield file
    else:
        with _archive(path) as archive, archive.open(f"{name}.npy") as member:
            yield member


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with _file(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


def _file(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from error
