"""Files of JSON lines that only grow: a kill or a full disk tears at most the last line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepsim.sweep.storage.disk import reading, writing


def append_line(path: Path, record: Mapping[str, Any], *, flushed: bool = False) -> None:
    """Append a record as one line, whole or not at all unless the process is killed.

    Parameters
    ----------
    flushed : whether to flush the line to the disk before returning.

    Raises
    ------
    OutputError
        The file cannot be written; it is as it was before.
    """
    rest = memoryview(json.dumps(dict(record)).encode() + b"\n")
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            before = os.fstat(handle).st_size
            try:
                while rest:
                    rest = rest[os.write(handle, rest) :]
                if flushed:
                    os.fsync(handle)
            except BaseException:
                # The next line must not be appended to half of this one.
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)


def drop_half_line(path: Path) -> None:
    """Cut off an incomplete line of a killed process."""
    if path.is_file():
        whole = path.read_bytes().rpartition(b"\n")[0]
        os.truncate(path, len(whole) + 1 if whole else 0)


def whole_lines(path: Path) -> list[bytes]:
    """All lines except an incomplete last one; empty if there is no file.

    Raises
    ------
    SweepError
        The file cannot be read.
    """
    try:
        with reading(path):
            return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
