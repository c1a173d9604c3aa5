"""Opening a trace file: detecting its format, and distinguishing truncation from other damage."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from stepsim.errors import TraceError

_MAGIC = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",  # a zip archive without members
    b"PAR1": "parquet",
    b"ARROW1": "ipc file",
    b"\xff\xff\xff\xff": "ipc stream",
}
_WRAPPED = {
    b"\x1f\x8b": ("gzip", "unpack it first: gunzip -k"),
    b"BZh": ("bzip2", "unpack it first: bunzip2 -k"),
    b"\xfd7zXZ": ("xz", "unpack it first: unxz -k"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unpack it first: unzstd"),
    b"\xff\xfe": ("UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"),
}
"""Forms of content that are not read, and how to convert them."""

_MOST_EXPANSION = 200
_ALWAYS_BYTES = 64 << 20
"""Data that unpacks to at most this size may be compressed at any ratio."""

_LISTED = 20

_TAIL = {"parquet": b"PAR1", "ipc file": b"ARROW1"}


def detect_format(path: Path) -> str | None:
    """The format, from the first bytes: npy, npz, parquet, ipc file, ipc stream, or None.

    Raises:
        TraceError: the file is missing, a folder, a pipe, unreadable, packed, or has no bytes.
    """
    if path.is_dir():
        raise TraceError(f"{path}: is a folder, expected a file; name one file in it")
    if path.exists() and not path.is_file():
        raise TraceError(
            f"{path}: is a pipe or a device, expected a file, since a trace is read more than "
            "once; write it to a file first"
        )
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise unreadable(path, error) from error
    if not head:
        raise TraceError(f"{path}: the file is empty (0 bytes); write or copy it again")
    for magic, (what, advice) in _WRAPPED.items():
        if head.startswith(magic):
            raise TraceError(f"{path}: is {what}, expected the trace itself; {advice} {path}")
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def choose_array(
    path: Path, present: Sequence[str], names: Sequence[str], extra: Sequence[str]
) -> str:
    """The main array among those ``present`` in an archive.

    It is the only one that is not ``extra``, or else the only one called one of ``names``.

    Raises:
        TraceError: it is not clear which array is meant.
    """
    wanted = [name for name in present if name in names]
    others = [name for name in present if name not in extra]
    if len(wanted) == 1:
        return wanted[0]
    if not wanted and len(others) == 1:
        return others[0]
    listed = ", ".join(f"`{name}`" for name in present[:_LISTED]) or "none"
    if len(present) > _LISTED:
        listed += ", ..."
    raise TraceError(
        f"{path}: holds {len(present)} arrays ({listed}), expected a single one or exactly one "
        f"named {' or '.join(f'`{name}`' for name in names)}; rename it, or load the archive "
        "with numpy.load and pass the array"
    )


def check_expansion(path: Path, what: str, packed: int, unpacked: int, cure: str) -> None:
    """Refuse data that a few bytes unpack to, before any of it is unpacked.

    Recorded data is compressed by a factor of 10 to 50. A much higher ratio means that the file
    was made to fill the memory of its reader, or is damaged.

    Raises:
        TraceError: the sizes are out of proportion.
    """
    packed = max(1, min(packed, path.stat().st_size))  # a header may say anything
    if unpacked > max(_ALWAYS_BYTES, _MOST_EXPANSION * packed):
        raise TraceError(
            f"{path}: {what} unpacks to {unpacked} bytes from {packed}, expected at most "
            f"{_MOST_EXPANSION} times as many or {_ALWAYS_BYTES} bytes; {cure}"
        )


def unreadable(path: Path, error: OSError) -> TraceError:
    """The error for a file that the system cannot read."""
    return TraceError(
        f"{path}: cannot be read ({error.strerror or error}); check the path and its permissions"
    )


def damaged(path: Path, kind: str, error: Exception) -> TraceError:
    """The error for a failed read; a missing end of the file is reported as such."""
    tail = _TAIL.get(kind, b"")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - len(tail)))
            end = file.read(len(tail))
        # The directory of a zip archive is at its end: without it, the end is missing.
        cut = kind == "npz" and not zipfile.is_zipfile(path)
    except OSError as gone:
        return unreadable(path, gone)
    reason = " ".join(str(error).split())
    what = f"the {kind.removesuffix(' file')} file"
    if kind != "npz" and not tail:
        return TraceError(
            f"{path}: {what} cannot be read to its end, it is truncated or damaged "
            f"({size} bytes; {reason}); write or copy it again"
        )
    lacks = "the directory at the end of a zip archive"
    if tail:
        cut, lacks = end != tail or size < 2 * len(tail), f"the closing {tail.decode()!r}"
    if cut:
        return TraceError(
            f"{path}: {what} is truncated, its {size} bytes lack {lacks}; write or copy it again"
        )
    return TraceError(f"{path}: {what} is damaged ({reason}); write or copy it again")
