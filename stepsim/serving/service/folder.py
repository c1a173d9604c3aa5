"""The folder of a service: its tables, its summary, and what is kept of one that was ended."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.atomic import replacing
from stepsim.errors import OutputError, ServingError
from stepsim.paths import exists, local_path
from stepsim.results import check_version
from stepsim.serving.service.loop import Recorded
from stepsim.serving.service.record import StepRows, joined
from stepsim.serving.service.tables import steps_of, steps_table
from stepsim.serving.steps.layers import Cost
from stepsim.wording import version_changes

REQUESTS: Final = "requests.parquet"
STEPS: Final = "steps.parquet"
SUMMARY: Final = "summary.json"

_SETTINGS: Final = "service.json"
"""What the service depends on; it is there from the start."""

FILES: Final = (_SETTINGS, REQUESTS, STEPS, SUMMARY)
"""What a finished service leaves, in the order in which it is written."""

_PARTS: Final = "parts"
"""Folder of the steps of a service that is not finished."""


def is_service(folder: Path) -> bool:
    """Whether a folder is one of a service, finished or not."""
    return exists(folder / _SETTINGS, OutputError)


def read_settings(folder: Path) -> dict[str, Any]:
    """What the service in a folder depends on.

    Raises
    ------
    ServingError : the folder has none, or it cannot be read.
    """
    return _read_json(folder / _SETTINGS)


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a finished service.

    Raises
    ------
    ServingError : the service is not finished, or the file cannot be read.
    """
    if not (folder / SUMMARY).exists() and is_service(folder):
        raise ServingError(
            f"{folder}: the service is not finished; go on with stepsim serve --resume --out "
            f"{folder}"
        )
    return _read_json(folder / SUMMARY)


def read_table(folder: Path, name: str) -> pa.Table:
    """A table of a finished service.

    Raises
    ------
    ServingError : it is missing, not readable, or of another version of the columns.
    """
    try:
        found = pq.read_table(local_path(folder / name))
    except (OSError, pa.ArrowInvalid) as error:
        raise ServingError(f"{folder / name}: cannot be read: {error}; serve again") from error
    check_version(found.schema, folder / name, ServingError, "serve again")
    return found


_COUNTS: Final = pa.list_(pa.int64())


class Folder:
    """The folder that a service writes.

    Parameters
    ----------
    settings : everything that the service depends on.
    resume : go on with what an earlier process has left there.

    Raises
    ------
    ServingError : there are results already and they are not to be resumed, or they are of other
        settings.
    OutputError : the folder cannot be written.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = path
        self._settings = dict(settings)
        self._saved: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._run_parts = self._runs_saved = 0
        if is_service(path):
            self._check(resume)
        elif path.is_dir() and any(path.iterdir()):
            raise ServingError(f"{path}: is not empty; name another folder")
        elif resume:
            raise ServingError(f"{path}: has no service to resume; leave --resume out")
        else:
            self._begin()

    @property
    def finished(self) -> bool:
        """Whether its service is complete."""
        return (self.path / SUMMARY).exists()

    def kept(self, replica: int = 0) -> StepRows:
        """The steps that an earlier process has left, without a gap from the first one on.

        Raises
        ------
        ServingError : a file cannot be read.
        """
        parts: list[StepRows] = []
        while (path := self._part(replica, len(parts))).exists():
            parts.append(steps_of(read_table(path.parent, path.name)))
        rows = joined(parts)
        self._saved[replica], self._numbers[replica] = len(rows), len(parts)
        return rows

    def save_steps(self, record: Recorded, replica: int = 0) -> None:
        """Keep the steps since the last call, so that a later process need not simulate them."""
        rows = record.rows(self._saved.get(replica, 0))
        if not len(rows):
            return
        number = self._numbers.get(replica, 0)
        _write(self._part(replica, number), steps_table([rows]))
        self._saved[replica] = self._saved.get(replica, 0) + len(rows)
        self._numbers[replica] = number + 1

    def kept_runs(self) -> list[tuple[Cost, ...]]:
        """The runs of the step model that an earlier process has left, from the first one on.

        Raises
        ------
        ServingError : a file cannot be read.
        """
        found: list[tuple[Cost, ...]] = []
        while (path := self._runs_part()).exists():
            table = read_table(path.parent, path.name)
            cycles, moved = (table[name].to_pylist() for name in ("cycles", "offchip_bytes"))
            found += [tuple(map(Cost, *pair)) for pair in zip(cycles, moved, strict=True)]
            self._run_parts += 1
        self._runs_saved = len(found)
        return found

    def save_runs(self, entries: Sequence[tuple[Cost, ...]]) -> None:
        """Keep the runs since the last call."""
        new = entries[self._runs_saved :]
        if not new:
            return
        columns = {
            name: pa.array([[getattr(cost, name) for cost in one] for one in new], _COUNTS)
            for name in ("cycles", "offchip_bytes")
        }
        _write(self._runs_part(), pa.table(columns))
        self._run_parts += 1
        self._runs_saved += len(new)

    def finish(self, requests: pa.Table, steps: pa.Table, summary: Mapping[str, Any]) -> None:
        """Write the results, the summary last, and remove what was kept meanwhile."""
        _write(self.path / REQUESTS, requests)
        _write(self.path / STEPS, steps)
        _write_json(self.path / SUMMARY, summary)
        shutil.rmtree(self.path / _PARTS, ignore_errors=True)

    def _runs_part(self) -> Path:
        return self.path / _PARTS / f"runs-{self._run_parts:06}.parquet"

    def _part(self, replica: int, number: int) -> Path:
        return self.path / _PARTS / f"{replica:04}-{number:06}.parquet"

    def _begin(self) -> None:
        try:
            (self.path / _PARTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.path}: cannot be made: {os.strerror(error.errno or 0)}; name a folder that "
                "can be written"
            ) from error
        _write_json(self.path / _SETTINGS, self._settings)

    def _check(self, resume: bool) -> None:
        if not resume:
            raise ServingError(
                f"{self.path}: has a service already; continue it with --resume, or name another "
                "folder"
            )
        there = read_settings(self.path)
        now = json.loads(json.dumps(self._settings))
        if there != now:
            names = sorted(key for key in {*there, *now} if there.get(key) != now.get(key))
            changes = version_changes(there.get("versions"), now["versions"])
            if changes:
                names[names.index("versions")] = f"versions ({changes})"
            raise ServingError(
                f"{self.path}: its service differs in {', '.join(names)}; resume it with the same "
                "settings and versions, or name another folder"
            )


def _write(path: Path, table: pa.Table) -> None:
    with replacing(path) as (part,):
        pq.write_table(table, local_path(part), compression="zstd", write_page_checksum=True)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    with replacing(path) as (part,):
        part.write_text(text, encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ServingError(
            f"{path}: cannot be read: {error}; name the folder of a service, or serve again"
        ) from error
    if not isinstance(found, dict):
        raise ServingError(f"{path}: expected a JSON object, found another value; serve again")
    return found
