"""``digests.jsonl``: size and SHA-256 of every file of a sweep that holds results.

A line lists files that were written together, and the plan that they belong to::

    {"plan": "5a0c...", "files": {"parts/0003-00001.runs.parquet": [20480, "9f86..."], ...}}

It is on the disk before the files get their final names. So every file with a final name has its
digest here, however a sweep was killed, and a file without one was not written by this sweep. Of
several lines on a file the last one is valid.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepsim.deferred import deferred
from stepsim.errors import SweepError
from stepsim.sweep.storage.disk import reading, replacing
from stepsim.sweep.storage.lines import append_line, whole_lines

if TYPE_CHECKING:
    import pyarrow as pa

pq: Any = deferred("pyarrow.parquet")

MANIFEST = "sweep.json"
"""The file that describes the sweep in its folder; its digest comes first."""

_NAME = "digests.jsonl"
_HEX = frozenset("0123456789abcdef")


class DamagedError(SweepError):
    """A file of a sweep has changed or is gone. It may be computed again."""


class Digest(NamedTuple):
    """Size of a file in bytes, and its SHA-256 in hexadecimal."""

    size: int
    sha256: str


def digest_of(path: Path) -> Digest:
    """Size and digest of a file as it is now; it is read once, a piece at a time."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256")
        return Digest(file.tell(), found.hexdigest())


def digest_of_json(content: Any) -> str:
    """SHA-256 of a JSON value, the same for equal content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Digests:
    """The digests of the files of one sweep, which is identified by the digest of its plan.

    Attributes
    ----------
    file : the file with the digests.
    damaged_lines : numbers of the lines that cannot be read, from 1.
    """

    def __init__(self, folder: Path, plan: str) -> None:
        self._folder = folder
        self.file = folder / _NAME
        self._plan = plan
        self._known: dict[str, Digest] = {}
        self._foreign: set[str] = set()
        self._manifests: set[Digest] = set()
        self.damaged_lines: list[int] = []

    @classmethod
    def some_in(cls, folder: Path) -> bool:
        """Whether a folder has digests; raises SweepError if that cannot be determined."""
        file = folder / _NAME
        with reading(file):
            return file.is_file()

    @classmethod
    def read(cls, folder: Path, plan: str) -> Digests:
        """The digests of a folder.

        Raises
        ------
        SweepError
            There are none, as in a sweep of an earlier version, or they cannot be read.
        """
        found = cls(folder, plan)
        if not cls.some_in(folder):
            raise SweepError(
                f"{folder}: has no {_NAME}, without which it is unknown whether its files are "
                "intact; an earlier version of stepsim wrote the folder, or the "
                "file was lost: run the sweep again in a new folder"
            )
        for number, line in enumerate(whole_lines(found.file), 1):
            parsed = _parsed(line)
            if parsed is None:
                found.damaged_lines.append(number)
            elif parsed[0] == plan:
                found._learn(parsed[1])
            else:
                found._foreign |= parsed[1].keys()
        return found

    def __contains__(self, path: Path) -> bool:
        return self._name(path) in self._known

    def names(self) -> set[str]:
        """Paths of all files with a digest, also of other sweeps, relative to the folder."""
        return self._known.keys() | self._foreign

    def of_table(self, name: str) -> list[Path]:
        """Files of complete design points, whether they exist or not."""
        return [self._folder / one for one in self._known if one.startswith(f"{name}/")]

    def has(self, path: Path, digest: Digest) -> bool:
        """Whether a file has this digest here."""
        return self._known.get(self._name(path)) == digest

    def record(self, digests: Mapping[Path, Digest]) -> None:
        """Record the digests of files that get their final names next.

        Raises
        ------
        OutputError
            They cannot be written.
        """
        named = {self._name(path): digest for path, digest in digests.items()}
        append_line(self.file, {"plan": self._plan, "files": named}, flushed=True)
        self._learn(named)

    def _learn(self, named: Mapping[str, Digest]) -> None:
        self._known |= named
        if MANIFEST in named:
            self._manifests.add(named[MANIFEST])

    def keep(self, groups: Iterable[Iterable[Path]]) -> None:
        """Drop files that are gone; write one line for each group of the others, in their order."""
        lines = [
            json.dumps({"plan": self._plan, "files": {n: self._known[n] for n in names}}) + "\n"
            for group in groups
            if (names := [self._name(path) for path in group])
        ]
        with replacing(self.file) as (temporary,), temporary.open("w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())

    def check(self, path: Path) -> None:
        """Compare a file with its digest.

        Raises
        ------
        DamagedError
            It is missing or changed, or does not belong to this sweep.
        SweepError
            It cannot be read.
        """
        expected = self._expected(path)
        with _read(path):
            # The manifest of a search grows: after a kill, an earlier one may be there.
            if path.name == MANIFEST and digest_of(path) in self._manifests:
                return
            size = path.stat().st_size
            # The size reveals most damage without reading the file.
            found = digest_of(path) if size == expected.size else Digest(size, "")
        _compare(path, found, expected)

    def content(self, path: Path) -> bytes:
        """The bytes of an intact file; raises like `check`."""
        expected = self._expected(path)
        with _read(path):
            data = path.read_bytes()
        _compare(path, Digest(len(data), hashlib.sha256(data).hexdigest()), expected)
        return data

    def table(self, path: Path) -> pa.Table:
        """The rows of an intact file; raises like `check`."""
        return pq.read_table(io.BytesIO(self.content(path)))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()

    def _expected(self, path: Path) -> Digest:
        name = self._name(path)
        if name in self._known:
            return self._known[name]
        if name in self._foreign:
            raise _damaged(path, f"it belongs to another sweep, according to {_NAME}")
        if self.damaged_lines:
            raise self._without_line(path)
        raise _damaged(path, f"this sweep did not write it: {_NAME} has no digest of it")

    def _without_line(self, path: Path) -> DamagedError:
        """An error for a file that may be intact, since its digest may be damaged instead."""
        line, *others = self.damaged_lines
        more = f" and {len(others)} more are" if others else " is"
        problem = f"cannot be checked, because line {line}{more} damaged in {self.file}"
        if path.name == MANIFEST:
            advice = "continue with --resume, which writes the digest again"
        else:
            advice = f"restore {_NAME}, or {_again(path)}"
        return DamagedError(f"{path}: {problem}; {advice}")


def _damaged(path: Path, reason: str) -> DamagedError:
    """An error for a file that has changed."""
    return _unusable(path, f"is damaged ({reason})")


def missing(path: Path) -> DamagedError:
    """An error for a file that was written and is gone."""
    return _unusable(path, "is missing")


def _unusable(path: Path, problem: str) -> DamagedError:
    if path.name == MANIFEST:
        advice = (
            "continue with --resume, which works if only the digest is damaged; else restore "
            "the file that was written, or run the sweep again in a new folder"
        )
    else:
        advice = _again(path)
    return DamagedError(f"{path}: {problem}; {advice}")


def _again(path: Path) -> str:
    """How to compute a file of results again: the file in ``runs`` marks a complete design
    point."""
    again = "run the sweep again with --resume, which computes"
    if not path.parent.name.startswith("design="):
        return f"{again} this chunk again"
    runs = path.parents[2] / "runs" / path.parent.name / path.name
    there = runs.exists()
    return f"delete {runs} and {again} it again" if there else f"{again} it again"


@contextmanager
def _read(path: Path) -> Iterator[None]:
    """Errors of the block: a missing file is damage, but an unreadable one may be intact."""
    try:
        with reading(path):
            if path.is_dir():
                raise SweepError(
                    f"{path}: is a folder, expected the file that was written; remove the folder "
                    "and run the sweep again with --resume"
                )
            yield
    except FileNotFoundError as error:
        raise missing(path) from error


def _compare(path: Path, found: Digest, expected: Digest) -> None:
    if found.size != expected.size:
        raise _damaged(path, f"it has {found.size:,} bytes, {expected.size:,} were written")
    if found.sha256 != expected.sha256:
        raise _damaged(
            path,
            f"its SHA-256 is {found.sha256[:12]}..., that of what was written is "
            f"{expected.sha256[:12]}...",
        )


def _parsed(line: bytes) -> tuple[str, dict[str, Digest]] | None:
    """Plan and digests of a line; None if it is damaged."""
    try:
        record = json.loads(line)
        found = {name: Digest(size, sha256) for name, (size, sha256) in record["files"].items()}
        whole = all(
            isinstance(size, int) and isinstance(sha256, str) and _HEX.issuperset(sha256)
            for size, sha256 in found.values()
        )
        return (str(record["plan"]), found) if whole else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
