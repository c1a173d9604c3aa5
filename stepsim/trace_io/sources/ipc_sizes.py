"""The declared sizes of compressed batches in Arrow IPC files, before Arrow unpacks them.

Arrow offers no access to these sizes, and allocates what they declare. They are in the first 8
bytes of every compressed buffer; the FlatBuffers of the messages say where the buffers are. What
cannot be parsed here is left to Arrow, which reports what is wrong with it. Source: "Serialization
and Interprocess Communication" of the Arrow columnar format, Message.fbs and File.fbs; "FlatBuffers
Internals" of the FlatBuffers documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stepsim.trace_io.files import check_expansion

_CONTINUATION = b"\xff\xff\xff\xff"
_END = struct.Struct("<i6s")
"""The end of a file, after the footer: the length of the footer, and ARROW1."""
_BLOCK = struct.Struct("<qi4xq")
_BUFFER = struct.Struct("<qq")
_DICTIONARY, _BATCH = 2, 3
_OLD_MARK = b"ARROW:experimental_compression"
_CURE = "check that it is the recorded data, and write it in smaller batches or uncompressed"


class _Sizes(NamedTuple):
    packed: int
    unpacked: int


def check_ipc_sizes(path: Path, kind: str, *, together: bool) -> None:
    """Refuse compressed batches that declare an excessive unpacked size.

    Parameters
    ----------
    together : whether all batches are unpacked before the first one is used.

    Raises
    ------
    TraceError
        As `check_expansion`.
    OSError
        The file cannot be read.
    """
    packed = unpacked = 0
    with path.open("rb") as file:
        for one in _of_file(file) if kind == "ipc file" else _of_stream(file):
            packed, unpacked = packed + one.packed, unpacked + one.unpacked
            check_expansion(path, "a record batch", one.packed, one.unpacked, _CURE)
    if together:
        check_expansion(path, "the stream of record batches", packed, unpacked, _CURE)


def _of_file(file: BinaryIO) -> Iterator[_Sizes]:
    end = file.seek(0, 2)
    with suppress(struct.error, ValueError):
        length, _ = _END.unpack(_read(file, end - _END.size, _END.size))
        footer = _Table.root(_read(file, end - _END.size - length, length))
        for field in (2, 3):  # dictionaries, batches
            for offset, _, _ in footer.structs(field, _BLOCK):
                with suppress(struct.error, ValueError):
                    yield _message(file, offset)[0]


def _of_stream(file: BinaryIO) -> Iterator[_Sizes]:
    offset = 0
    with suppress(struct.error, ValueError, EOFError):
        while True:
            sizes, offset = _message(file, offset)
            yield sizes


def _message(file: BinaryIO, offset: int) -> tuple[_Sizes, int]:
    """The unpacked size of a message, and the offset of the next one."""
    start = offset + (8 if _read(file, offset, 4) == _CONTINUATION else 4)
    (length,) = struct.unpack("<i", _read(file, start - 4, 4))
    if length == 0:
        raise EOFError
    metadata = _read(file, start, length)
    body = start + length
    message = _Table.root(metadata)
    kind, size = message.value(1, "<B"), message.value(3, "<q")
    following = body + max(0, size)
    if kind not in (_DICTIONARY, _BATCH):
        return _Sizes(0, 0), following
    batch = message.table(2)
    if batch is not None and kind == _DICTIONARY:
        batch = batch.table(1)
    if batch is None or not (batch.at(3) or _OLD_MARK in metadata):
        return _Sizes(0, 0), following
    packed = unpacked = 0
    for first, count in batch.structs(2, _BUFFER):
        if count > 0:
            (declared,) = struct.unpack("<q", _read(file, body + first, 8))
            # -1 is for buffers that are stored as they are.
            packed += count
            unpacked += max(declared, 0)
    return _Sizes(packed, unpacked), following


class _Table:
    """A table of a FlatBuffer, whose fields have numbers."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - self._int("<i", place)
        self._size = self._int("<H", self._fields)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        (place,) = struct.unpack_from("<I", data)
        return cls(data, place)

    def at(self, field: int) -> int:
        """Where a field is; 0 for one that is absent."""
        entry = 4 + 2 * field
        offset = self._int("<H", self._fields + entry) if entry < self._size else 0
        return self._place + offset if offset else 0

    def value(self, field: int, form: str) -> int:
        place = self.at(field)
        return self._int(form, place) if place else 0

    def table(self, field: int) -> _Table | None:
        place = self.at(field)
        return _Table(self._data, place + self._int("<I", place)) if place else None

    def structs(self, field: int, form: struct.Struct) -> Iterator[tuple[int, ...]]:
        """The elements of a vector."""
        if place := self.at(field):
            place += self._int("<I", place)
            for index in range(self._int("<I", place)):
                yield form.unpack_from(self._data, place + 4 + index * form.size)

    def _int(self, form: str, place: int) -> int:
        if place < 0:
            raise ValueError(place)
        (found,) = struct.unpack_from(form, self._data, place)
        return int(found)


def _read(file: BinaryIO, offset: int, count: int) -> bytes:
    """Bytes of the file; a truncated read makes the caller raise `struct.error`."""
    if offset < 0 or count < 0:
        raise ValueError(offset)
    file.seek(offset)
    return file.read(count)
