"""Arrays in NumPy files, mapped window by window: only the requested part is in memory.

An array of a .npy file is mapped in place. One in an archive is loaded into memory if it is small;
otherwise it is unpacked to a temporary file and mapped there.
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
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.files import check_expansion, choose_array, damaged
from stepsim.trace_io.routing.validate import check_integer_dtype, check_weights_shape

_WINDOW_BYTES = 8 << 20
"""Bytes of a file that are mapped at a time when rows are copied out of it."""

_PAGE_BYTES = 2 << 20
"""Bytes that reading a single value of a mapped file may bring into memory."""

_MAX_UNPACKED_BYTES = 32 << 20
"""Most bytes of an archived array that is loaded into memory."""

_MOST_OF_NOTHING = 1 << 31


@dataclass(frozen=True, eq=False)
class Array:
    """An array [rows, ...] in a file or in memory.

    Attributes:
        name: its origin, for messages.
        dtype, shape: as stated in the header.
        values: the array. A file is mapped again on every access, so that its pages are released
            with the mapping.
        in_file: whether it is mapped.
        fortran: whether the first dim varies fastest.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    values: Callable[[], npt.NDArray[Any]]
    in_file: bool = True
    fortran: bool = False

    @classmethod
    def in_memory(cls, values: npt.NDArray[Any]) -> Array:
        """An array that the caller holds in memory."""
        return cls("array", values.dtype, values.shape, lambda: values, in_file=False)

    @property
    def row_bytes(self) -> int:
        """Bytes of one element of the first dim."""
        return max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)

    def check_integers(self, what: str) -> None:
        """Refuse values other than integers, before anything is read from the file.

        Raises:
            TraceError: the values are of another type, or masked.
        """
        values = np.empty(0, self.dtype) if self.in_file else self.values()
        check_integer_dtype(values, self.name, what)

    def read(
        self, first: int = 0, count: int | None = None, layer: int | None = None
    ) -> npt.NDArray[Any]:
        """Rows ``first`` to ``first + count - 1``, of all dims or of index ``layer`` of the second.

        It needs memory for the result and for one window.

        Raises:
            TraceError: the file is truncated, damaged or gone.
        """
        if not self.shape:
            return self.values()
        end = self.shape[0] if count is None else first + count
        if not self.in_file:
            rows = self.values()[first:end]
            return rows if layer is None else rows[:, layer]
        inner = self.shape[1:] if layer is None else self.shape[2:]
        try:
            out = np.empty((end - first, *inner), dtype=self.dtype)
        except MemoryError as error:
            needed = (end - first) * math.prod(inner) * self.dtype.itemsize
            raise TraceError(
                f"{self.name}: {end - first} rows need {needed} bytes of memory, which are not "
                "available; choose a window of them, or import the trace, which is done piece by "
                "piece"
            ) from error
        if self.fortran:
            # Each index of the inner dims is a column of consecutive values.
            at_once = max(1, _WINDOW_BYTES // max(_PAGE_BYTES, len(out) * self.dtype.itemsize))
            for number, index in enumerate(np.ndindex(*inner)):
                if number % at_once == 0:
                    mapped = self.values()
                column = index if layer is None else (layer, *index)
                out[(slice(None), *index)] = mapped[(slice(first, end), *column)]
            return out
        rows_at_once = max(1, _WINDOW_BYTES // self.row_bytes)
        for at in range(first, end, rows_at_once):
            window = self.values()[at : min(at + rows_at_once, end)]
            out[at - first :][: len(window)] = window if layer is None else window[:, layer]
        return out

    def blocks(self, size: int) -> Iterator[npt.NDArray[Any]]:
        """The array in pieces of about ``size`` bytes; one empty piece if it has no rows.

        Raises:
            TraceError: the file is truncated, damaged or gone.
        """
        rows = max(1, size // self.row_bytes)
        for first in range(0, max(1, self.shape[0]), rows):
            if self.fortran:
                yield self.read(first, min(rows, self.shape[0] - first))
            else:
                yield self.values()[first : first + rows]


def open_array(path: Path, kind: str, name: str | None = None, *, rows: int | None = None) -> Array:
    """The array of a .npy file, or the one called ``name`` in a .npz file.

    An array in an archive may be compressed at any ratio if it has as many ``rows`` as the caller
    expects. Otherwise the ratio is checked when it is unpacked, so that the caller can first report
    the wrong number of rows.

    Raises:
        TraceError: the file is truncated or damaged, or holds Python objects.
    """
    with _reading(path, kind):
        if kind == "npy":
            with path.open("rb") as file:
                header = _header(file)
                found = packed = file.seek(0, io.SEEK_END)
        else:
            with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
                header = _header(member)
                info = archive.getinfo(f"{name}.npy")
                # The directory may be wrong, but the next member begins where this one ends.
                after = [one.header_offset for one in archive.infolist()] + [archive.start_dir]
                room = min(at for at in after if at > info.header_offset) - info.header_offset
                found, packed = info.file_size, min(info.compress_size, room)
    if header.dtype.hasobject:
        raise TraceError(
            f"{path}: holds Python objects (object array), expected integers; rows of "
            "different lengths or None produce one, correct them and save again"
        )
    # Before memory is allocated for the sizes in a damaged header.
    if found < header.file_bytes or min(header.shape, default=0) < 0:
        raise damaged(path, kind, EOFError(f"{found} of {header.file_bytes} bytes are there"))
    # Values of zero bytes could be arbitrarily many, and iterating over them takes forever.
    if max(header.shape, default=0) > _MOST_OF_NOTHING and header.file_bytes == header.offset:
        raise damaged(path, kind, ValueError(f"shape {header.shape} without any bytes"))
    values: _Mapped | _Unpacked = _Mapped(path, header)
    if kind == "npz":
        expected = rows is not None and header.shape[:1] == (rows,)
        values = _Unpacked(path, f"{name}.npy", header, None if expected else packed)
        if rows is None:
            values.check()
    return Array(str(path), header.dtype, header.shape, values, fortran=header.fortran)


def open_routing(path: Path, kind: str, *, rows: int | None = None) -> tuple[Array, Array | None]:
    """The expert ids in a .npy or .npz file, and their weights if present.

    ``rows`` are those of `open_array`.

    Raises:
        TraceError: as `open_array`, or it is not clear which array is meant, or the weights have
            another shape.
    """
    chosen = weights = None
    if kind == "npz":
        names = archive_names(path)
        chosen = choose_array(path, names, ("experts", "data"), ("weights",))
        if "weights" in names and chosen != "weights":
            weights = open_array(path, kind, "weights", rows=rows)
    ids = open_array(path, kind, chosen, rows=rows)
    if weights is not None:
        check_weights_shape(weights.shape, ids.shape, str(path))
    return ids, weights


def array_of_bytes(data: bytes) -> npt.NDArray[Any]:
    """The array of a .npy file in memory.

    Raises:
        ValueError: it is not such a file, is truncated, or holds Python objects.
    """
    try:
        return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))
    except Exception as error:  # a damaged header makes NumPy raise almost any error
        raise ValueError(str(error)) from error


def archive_names(path: Path) -> list[str]:
    """Names of the arrays in a .npz file.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    with _reading(path, "npz"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return [name.removesuffix(".npy") for name in names if name.endswith(".npy")]


@dataclass(frozen=True)
class _Header:
    """The beginning of a .npy file; the values follow after ``offset`` bytes."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def file_bytes(self) -> int:
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def map(self, file: Path | IO[bytes]) -> npt.NDArray[Any]:
        """The values, as they lie in a file."""
        order: Literal["F", "C"] = "F" if self.fortran else "C"
        return np.asarray(np.memmap(file, self.dtype, "r", self.offset, self.shape, order))


def _header(file: IO[bytes]) -> _Header:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        found = np.lib.format.read_array_header_1_0(file)
    else:
        found = np.lib.format.read_array_header_2_0(file)
    return _Header(*found, file.tell())


@dataclass(frozen=True)
class _Mapped:
    """Maps a .npy file."""

    path: Path
    header: _Header

    def __call__(self) -> npt.NDArray[Any]:
        with _reading(self.path, "npy"):
            return self.header.map(self.path)


@dataclass(frozen=True)
class _Unpacked:
    """Unpacks the ``member`` of an archive when it is first asked for.

    ``packed`` are its bytes in the archive, None if any compression ratio is accepted.
    """

    path: Path
    member: str
    header: _Header
    packed: int | None

    def check(self) -> None:
        """Refuse an array that unpacks to an excessive size."""
        if self.packed is not None:
            what = f"the array `{self.member.removesuffix('.npy')}`"
            cure = "check that it is the recorded data, and save it as a .npy file"
            check_expansion(self.path, what, self.packed, self.header.file_bytes, cure)

    def __call__(self) -> npt.NDArray[Any]:
        return self._values if self._file is None else self.header.map(self._file)

    @cached_property
    def _values(self) -> npt.NDArray[Any]:
        """A small array, in memory."""
        with (
            _reading(self.path, "npz"),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.member) as file,
        ):
            found = np.lib.format.read_array(file, allow_pickle=False)
            file.read(1)  # zipfile compares the checksum when it meets the end
            return np.asarray(found)

    @cached_property
    def _file(self) -> IO[bytes] | None:
        """A large array, in a temporary file."""
        with _reading(self.path, "npz"):
            self.check()
        if self.header.file_bytes <= _MAX_UNPACKED_BYTES:
            return None
        try:
            target = tempfile.TemporaryFile()  # noqa: SIM115
            # Kept open as long as the array may be read.
            weakref.finalize(self, _close, target)
            for block in self._blocks():
                target.write(block)
            target.flush()
        except OSError as error:
            folder = tempfile.tempdir or "none"
            raise TraceError(
                f"{self.path}: the array `{self.member.removesuffix('.npy')}` needs "
                f"{self.header.file_bytes} bytes in the folder of temporary files ({folder}), "
                f"which cannot be written ({error.strerror}); make room there, or name another "
                "folder in the environment variable TMPDIR"
            ) from error
        return target

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of the array, without anything that may follow them."""
        left = self.header.file_bytes
        with (
            _reading(self.path, "npz"),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.member) as file,
        ):
            while left and (block := file.read(min(left, _WINDOW_BYTES))):
                left -= len(block)
                yield block
            if left:  # the directory declares more
                raise EOFError(f"{left} of {self.header.file_bytes} bytes are missing")
            file.read(1)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # flushing data that could not be written
        file.close()


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Turns whatever NumPy, zipfile and zlib raise, almost any error, into our errors."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:
        raise damaged(path, kind, error) from error
