"""The folder of a sweep: chunks as they finish, then one file per design point.

::

    sweep.json                          what is run: specification, design points, versions
    parts/0003-00001.runs.parquet       finished chunks of design points that are not complete
    runs/design=0003-tile-64/part.parquet
    failures/design=.../part.parquet    runs that failed, with the error
    units/design=.../part.parquet       stall breakdown of the units, when kept
    timings.jsonl                       seconds and process of every chunk; not part of the results
    summary.json                        written last: the sweep is complete

Files are written under another name, flushed and renamed, so that whatever carries the final name
is whole. A chunk counts as finished when its ``.runs.parquet`` is there, which comes last of its
files; a design point when its file in ``runs`` is there. Its chunks are deleted only afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from stepsim.atomic import replacing
from stepsim.errors import OutputError, SweepError
from stepsim.simulation.case import parameter_columns
from stepsim.sweep.parquet import check_footer, check_whole, flush, read_table, write_tables
from stepsim.sweep.plan import CODE, Plan, Point, versions
from stepsim.sweep.schema import FAILURES_SCHEMA, TABLES, UNIT_ROWS_SCHEMA, runs_schema
from stepsim.sweep.work import ChunkRows

__all__ = ["Store", "table_files", "table_schemas"]


def table_schemas(parameters: Mapping[str, pa.Field]) -> dict[str, pa.Schema]:
    """Schemas of the tables of a sweep by name, for the parameters of its workload."""
    return {
        "failures": FAILURES_SCHEMA,
        "units": UNIT_ROWS_SCHEMA,
        "runs": runs_schema(parameters),
    }


class Store:
    """Writes the folder of one sweep. Only one process may hold a folder at a time.

    Attributes
    ----------
    damaged : what was wrong with finished chunks when the folder was opened; they run again.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.damaged: tuple[str, ...] = ()
        self._plan = plan
        self._parts = folder / "parts"
        self._manifest_file = folder / "sweep.json"
        self._summary = folder / "summary.json"
        self._timings = folder / "timings.jsonl"
        self._tables = tuple(t for t in TABLES if t != "units" or plan.spec.units)
        self._parameters = parameter_columns(plan.workload)
        self._schemas = table_schemas(self._parameters)

    def check(self, *, resume: bool) -> None:
        """Refuse a folder that is not for this sweep, without touching it.

        Raises
        ------
        SweepError
            It holds a sweep and ``resume`` is false, or holds another one.
        """
        manifest = self._manifest_file
        if not manifest.exists():
            return
        if not resume:
            raise SweepError(
                f"{self.folder}: holds a sweep already; continue it with --resume, or choose "
                "another folder"
            )
        try:
            found = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SweepError(
                f"{manifest}: cannot be read ({error}); start in a new folder"
            ) from error
        mine = self._manifest()
        if found.get("plan") != mine["plan"]:
            raise SweepError(
                f"{self.folder}: holds another sweep, {self._differences(found)}; continue with "
                "what it was started with, or choose another folder"
            )

    def _differences(self, found: Mapping[str, Any]) -> str:
        """How the plan that the folder holds differs from this one, in words."""
        parts = found.get("parts")
        differing = self._plan.differences(parts if isinstance(parts, dict) else {})
        if found.get("versions") != versions():
            differing.append("versions")
        texts = []
        if CODE in differing:
            differing.remove(CODE)
            file = self._plan.source.text.partition(":")[0]
            texts = [f"{file} has changed since the sweep was started"]
        if differing:
            texts.insert(0, f"it differs in {', '.join(differing)}")
        return " and ".join(texts) or "which another format of tables was made for"

    @contextmanager
    def open(self, *, resume: bool) -> Iterator[Store]:
        """Claim the folder, check that it is new or holds this sweep, and clear what was torn.

        Raises
        ------
        SweepError
            The folder holds a sweep and ``resume`` is false, or holds another one, or is in use;
            or a design point that is complete is damaged.
        OutputError
            The folder cannot be written.
        """
        try:
            self._parts.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / ".lock").open("w")
        except OSError as error:
            raise OutputError(
                f"{self.folder}: cannot be written ({error.strerror}); choose another folder"
            ) from error
        with lock:
            _lock(lock, self.folder)
            self.check(resume=resume)
            if not self._manifest_file.exists():
                write_json(self._manifest_file, self._manifest())
            self._clear_torn()
            self.damaged = self._remove_damaged()
            # Of an earlier end. It is written anew once all runs are there.
            self._summary.unlink(missing_ok=True)
            yield self

    def finished(self) -> set[str]:
        """Keys of chunks that need not run again."""
        done = {path.name.split(".")[0] for path in self._parts.glob("*.runs.parquet")}
        complete = {p.index for p in self._plan.points if self._final("runs", p).exists()}
        return done | {c.key for c in self._plan.chunks() if c.point.index in complete}

    def save(self, rows: ChunkRows) -> None:
        """Put the rows of a finished chunk on disk.

        Raises
        ------
        OutputError
            They cannot be written, as when the disk is full; no torn file is left of this chunk.
        """
        tables = {name: _table(self._schemas[name], getattr(rows, name)) for name in self._tables}
        write_tables({self._part(rows.key, name): table for name, table in tables.items()})
        with _writing(self._timings), self._timings.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(rows.timing)) + "\n")

    def compact(self, point: Point, chunks: Sequence[str]) -> None:
        """Join the chunks of a complete design point into one file per table."""
        if not self._final("runs", point).exists():
            joined: dict[Path, pa.Table] = {}
            for name in self._tables:
                parts = [read_table(self._part(key, name)) for key in chunks]
                joined[self._final(name, point)] = pa.concat_tables(parts).combine_chunks()
            for path in joined:
                with _writing(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
            write_tables(joined)
        for key in chunks:
            for name in reversed(self._tables):
                self._part(key, name).unlink(missing_ok=True)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self._summary, summary)

    def count(self, name: str) -> int:
        """Rows of a table, over all files."""
        return sum(check_footer(path).num_rows for path in table_files(self.folder, name))

    def _final(self, name: str, point: Point) -> Path:
        return self.folder / name / f"design={point.label}" / "part.parquet"

    def _part(self, key: str, name: str) -> Path:
        return self._parts / f"{key}.{name}.parquet"

    def _manifest(self) -> dict[str, Any]:
        spec, points = self._plan.spec, self._plan.points
        return {
            "name": spec.name,
            "plan": self._plan.digest(),
            "parts": self._plan.parts,
            "runs": self._plan.runs,
            "versions": versions(),
            "spec": spec.model_dump(mode="json"),
            "parameters": {name: _column(f) for name, f in self._parameters.items()},
            "designs": dict(zip([p.label for p in points], spec.design_points(), strict=True)),
        }

    def _clear_torn(self) -> None:
        """Remove what a killed process left: files under temporary names, half a line."""
        for path in self.folder.rglob(".*.tmp"):
            path.unlink(missing_ok=True)
        if self._timings.is_file():
            whole = self._timings.read_bytes().rpartition(b"\n")[0]
            os.truncate(self._timings, len(whole) + 1 if whole else 0)

    def _remove_damaged(self) -> tuple[str, ...]:
        """Chunks whose rows cannot be read are not finished; complete design points must be."""
        complete = {p.index for p in self._plan.points if self._final("runs", p).exists()}
        for point in self._plan.points:
            if point.index in complete:
                for name in self._tables:
                    check_whole(self._final(name, point), self._schemas[name])
        damaged: list[str] = []
        for chunk in self._plan.chunks():
            runs = self._part(chunk.key, "runs")
            if chunk.point.index not in complete and runs.exists():
                try:
                    for name in self._tables:
                        check_whole(self._part(chunk.key, name), self._schemas[name])
                except SweepError as error:
                    damaged.append(str(error))
                    # Without this one the others do not count, and are written over.
                    runs.unlink()
        return tuple(damaged)


def table_files(folder: Path, name: str) -> list[Path]:
    """Files of a table: complete design points, then finished chunks of the others, in order."""
    complete = sorted(path.parent.name for path in (folder / "runs").glob("design=*/part.parquet"))
    closed = {int(label.removeprefix("design=").split("-")[0]) for label in complete}
    final = [folder / name / label / "part.parquet" for label in complete]
    parts = folder / "parts"
    finished = sorted(path.name.split(".")[0] for path in parts.glob("*.runs.parquet"))
    return [path for path in final if path.exists()] + [
        parts / f"{key}.{name}.parquet"
        for key in finished
        if int(key.split("-")[0]) not in closed and (parts / f"{key}.{name}.parquet").exists()
    ]


def _column(field: pa.Field) -> dict[str, str]:
    """A column as readers of the folder find it, who need not have the workload."""
    return {"type": str(field.type), **{k.decode(): v.decode() for k, v in field.metadata.items()}}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    with replacing(path) as (temporary,):
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        flush(temporary)


def _table(schema: pa.Schema, rows: Sequence[Any]) -> pa.Table:
    if schema is UNIT_ROWS_SCHEMA:
        return pa.concat_tables([schema.empty_table(), *rows]).combine_chunks()
    return pa.Table.from_pylist(list(rows), schema=schema)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say of what cannot be written what is left."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); what was finished is kept: make room "
            "and continue with --resume"
        ) from error


def _lock(file: Any, folder: Path) -> None:
    """The lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on this platform; two sweeps in one folder are then not noticed
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise SweepError(
            f"{folder}: another process is running a sweep there; wait for it or stop it"
        ) from error
