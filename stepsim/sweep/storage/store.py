"""The folder of a sweep: chunks as they finish, then one file per design point.

::

    sweep.json                          what is run: specification, design points, versions
    parts/0003-00001.runs.parquet       finished chunks of design points that are not complete
    runs/design=0003-tile-64/part.parquet
    failures/design=.../part.parquet    runs that failed, with the error
    units/design=.../part.parquet       stall breakdown of the units, when kept
    digests.jsonl                       size and SHA-256 of all files above, before they are there
    timings.jsonl                       seconds and process of every chunk; not part of the results
    summary.json                        written last: the sweep is complete

Files are written under another name, flushed and renamed, so that every file with its final name is
complete, and has a digest. A chunk counts as finished when its
``.runs.parquet`` is there, which comes last of its files; a design point when its file in ``runs``
is there. Its chunks are deleted only afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.errors import OutputError, SweepError
from stepsim.paths import exists, local_path
from stepsim.sweep.planning.plan import CODE, Plan, Point, versions
from stepsim.sweep.running.work import ChunkRows
from stepsim.sweep.spec.problems import listing
from stepsim.sweep.spec.specification import SweepSpec
from stepsim.sweep.storage.digests import MANIFEST, DamagedError, Digests, digest_of
from stepsim.sweep.storage.disk import flush, flush_names, lock, reading, replacing, writing
from stepsim.sweep.storage.files import SUMMARY, parquet_files, table_files
from stepsim.sweep.storage.lines import append_line, drop_half_line
from stepsim.sweep.storage.manifest import load_manifest
from stepsim.sweep.storage.parquet import write_tables
from stepsim.sweep.storage.schema import FAILURES_SCHEMA, TABLES, UNIT_ROWS_SCHEMA, runs_schema
from stepsim.wording import version_changes

P = ParamSpec("P")
T = TypeVar("T")


def _worded(method: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Give other errors of the disk a message that states what is kept and how to continue."""

    @wraps(method)
    def call(store: Store, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return method(store, *args, **options)
        except OutputError:  # an OSError too
            raise
        except OSError as error:
            path = Path(error.filename or store.folder)
            # Some systems do not call it a folder when they refuse to remove it as a file.
            advice = (
                f"remove the folder {path}, which takes the place of a file,"
                if path != store.folder and path.is_dir()
                else "check the disk and the permissions,"
            )
            raise OutputError(
                f"{path}: cannot be changed ({error.strerror or error}); what was finished is "
                f"kept: {advice} and continue with --resume"
            ) from error

    return call


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
    damaged : errors of finished chunks that were damaged when the folder was opened; they run
        again.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.damaged: tuple[str, ...] = ()
        self._plan = plan
        self._parts = folder / "parts"
        self._manifest_file = folder / MANIFEST
        self._summary = folder / SUMMARY
        self._timings = folder / "timings.jsonl"
        self._digests = Digests(folder, plan.digest())
        self._tables = tuple(t for t in TABLES if t != "units" or plan.spec.units)
        self._parameters = plan.columns
        self._schemas = table_schemas(self._parameters)

    def check(self, *, resume: bool) -> None:
        """Refuse a folder that is not for this sweep, without changing it.

        Raises
        ------
        SweepError
            It holds a sweep and ``resume`` is false, or holds another one, or its description of
            the sweep is damaged.
        """
        manifest = self._manifest_file
        if not exists(manifest, SweepError):
            self._refuse_remains()
            return
        if not resume:
            raise SweepError(
                f"{self.folder}: holds a sweep already; continue it with --resume, or choose "
                "another folder"
            )
        found = load_manifest(self.folder)
        if found.get("plan") != self._plan.digest():
            raise SweepError(
                f"{self.folder}: holds another sweep, {self._differences(found)}; continue with "
                "the specification and the versions it was started with, or choose another folder"
            )
        self._digests = Digests.read(self.folder, self._plan.digest())
        # The specification identifies the sweep even if its digest is lost.
        with reading(manifest):
            as_written = manifest.read_bytes() == _text(self._manifest()).encode()
        if not as_written:
            self._digests.check(manifest)

    def _refuse_remains(self) -> None:
        """Refuse results without a manifest; a killed start leaves at most its digest."""
        if not Digests.some_in(self.folder):
            return
        known = Digests.read(self.folder, self._plan.digest())
        if known.damaged_lines or known.names() - {MANIFEST}:
            raise SweepError(
                f"{self.folder}: holds results of a sweep, but its {MANIFEST} is missing, so that "
                "it is unknown which sweep it was; restore the file and continue with --resume, "
                "or choose another folder"
            )

    def _differences(self, found: Mapping[str, Any]) -> str:
        """How the plan in the folder differs from this one, in words."""
        parts = found.get("parts")
        differing = self._plan.differences(parts if isinstance(parts, dict) else {})
        changes = version_changes(found.get("versions"), versions())
        if changes:
            differing.append(f"versions ({changes})")
        texts = []
        if CODE in differing:
            differing.remove(CODE)
            file = self._plan.source.text.partition(":")[0]
            texts = [f"{file} has changed since the sweep was started"]
        if differing:
            texts.insert(0, f"it differs in {', '.join(differing)}")
        return " and ".join(texts) or "written with another format of tables"

    @contextmanager
    def open(self, *, resume: bool) -> Iterator[Store]:
        """Lock the folder, check that it is new or holds this sweep, and remove incomplete files.

        Raises
        ------
        SweepError
            The folder holds a sweep and ``resume`` is false, or holds another one, or is in use;
            or a design point that is complete is damaged, or a file cannot be read.
        OutputError
            The folder cannot be written or locked.
        """
        try:
            self._parts.mkdir(parents=True, exist_ok=True)
            handle = (self.folder / ".lock").open("w")
        except OSError as error:
            raise OutputError(
                f"{self.folder}: cannot be written ({error.strerror}); choose another folder"
            ) from error
        with handle:
            lock(handle, self.folder)
            self.check(resume=resume)
            self._clear_torn()
            self._refuse_foreign()
            if not self._manifest_file.exists():
                self._write_manifest()
            else:
                self._record_manifest()
            self.damaged = self._remove_damaged()
            # From an earlier end; it is written again once all runs are there.
            self._drop_summary()
            yield self

    def extend(self, plan: Plan) -> None:
        """Write a plan of the same digest with more design points.

        Raises
        ------
        OutputError
            It cannot be written.
        """
        self._plan = plan
        self._write_manifest()

    def finished(self) -> set[str]:
        """Keys of chunks that need not run again."""
        ending = ".runs.parquet"
        names = [path.name for path in parquet_files(self._parts)]
        done = {name.removesuffix(ending) for name in names if name.endswith(ending)}
        complete = {p.index for p in self._plan.points if self._final("runs", p).exists()}
        return done | {c.key for c in self._plan.chunks() if c.point.index in complete}

    @_worded
    def save(self, rows: ChunkRows) -> None:
        """Write the rows of a finished chunk to disk.

        Raises
        ------
        OutputError
            They cannot be written, as when the disk is full; no torn file is left of this chunk.
        """
        tables = {name: _table(self._schemas[name], getattr(rows, name)) for name in self._tables}
        places = {self._part(rows.key, name): table for name, table in tables.items()}
        write_tables(places, self._digests)
        append_line(self._timings, rows.timing)

    @_worded
    def compact(self, point: Point, chunks: Sequence[str]) -> None:
        """Join the chunks of a complete design point into one file per table.

        Raises
        ------
        SweepError
            A chunk was damaged meanwhile.
        OutputError
            The files cannot be written; the chunks stay.
        """
        if not self._final("runs", point).exists():
            joined: dict[Path, pa.Table] = {}
            for name in self._tables:
                parts = [self._digests.table(self._part(key, name)) for key in chunks]
                joined[self._final(name, point)] = pa.concat_tables(parts).combine_chunks()
            for path in joined:
                with writing(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
            write_tables(joined, self._digests)
        # Also files of an earlier start. A power cut must not lose these after their chunks are
        # gone.
        with writing(self._final("runs", point)):
            for name in self._tables:
                flush_names(self._final(name, point).parents[:2])
            flush_names([self.folder])
        for key in chunks:
            for name in reversed(self._tables):
                self._part(key, name).unlink(missing_ok=True)

    @_worded
    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Complete the sweep: keep only the digests of its results, in their order."""
        points = [[self._final(t, p) for t in self._tables] for p in self._plan.points]
        self._digests.keep([[self._manifest_file], *points])
        _write_json(self._summary, summary)

    def count(self, name: str) -> int:
        """Number of rows of a table, over all files."""
        rows = 0
        for path in table_files(self.folder, name).rows:
            self._digests.check(path)
            with reading(path):
                rows += pq.read_metadata(local_path(path)).num_rows
        return rows

    def tables(self, name: str) -> Iterator[pa.Table]:
        """A table, file by file."""
        for path in table_files(self.folder, name).rows:
            yield self._digests.table(path)

    @_worded
    def _drop_summary(self) -> None:
        self._summary.unlink(missing_ok=True)

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
            "spec": spec.model_dump(mode="json", exclude=_unused(spec)),
            "parameters": {name: _column(f) for name, f in self._parameters.items()},
            "designs": dict(zip([p.label for p in points], spec.design_points(), strict=True)),
        }

    def _write_manifest(self) -> None:
        with replacing(self._manifest_file) as (temporary,):
            _dump(temporary, self._manifest())
            self._digests.record({self._manifest_file: digest_of(temporary)})
        with writing(self._manifest_file):
            flush_names([self.folder])

    def _record_manifest(self) -> None:
        """Record its digest again if that was lost, which `check` found to be harmless."""
        with reading(self._manifest_file):
            found = digest_of(self._manifest_file)
        if not self._digests.has(self._manifest_file, found):
            self._digests.record({self._manifest_file: found})

    @_worded
    def _clear_torn(self) -> None:
        """Remove leftovers of a killed process: files with temporary names, an incomplete line."""
        for path in self.folder.rglob(".*.tmp"):
            path.unlink(missing_ok=True)
        for path in (self._digests.file, self._timings):
            drop_half_line(path)

    def _refuse_foreign(self) -> None:
        """Refuse files that readers of the folder would mistake for rows of this sweep."""
        names = {self._part(c.key, t) for c in self._plan.chunks() for t in self._tables}
        names |= {self._final(t, p) for p in self._plan.points for t in self._tables}
        places = [self._parts, *(self.folder / t for t in TABLES)]
        foreign = sorted({path for place in places for path in parquet_files(place)} - names)
        if foreign:
            files = listing([str(path) for path in foreign])
            raise SweepError(
                f"{self.folder}: holds files that are not of this sweep; remove them, and continue "
                f"with --resume:{files}"
            )

    @_worded
    def _remove_damaged(self) -> tuple[str, ...]:
        """Drop damaged chunks from the finished ones; complete points must be intact."""
        complete = {p.index for p in self._plan.points if self._final("runs", p).exists()}
        for point in self._plan.points:
            if point.index in complete:
                for name in self._tables:
                    self._digests.check(self._final(name, point))
        damaged: list[str] = []
        finished = self.finished()
        for chunk in self._plan.chunks():
            runs = self._part(chunk.key, "runs")
            if chunk.point.index not in complete and chunk.key in finished:
                try:
                    for name in self._tables:
                        self._digests.check(self._part(chunk.key, name))
                except DamagedError as error:
                    damaged.append(str(error))
                    # Without this file the others do not count, and are overwritten.
                    runs.unlink()
        return tuple(damaged)


def _column(field: pa.Field) -> dict[str, str]:
    """A column as readers without the workload find it in the folder."""
    return {"type": str(field.type), **{k.decode(): v.decode() for k, v in field.metadata.items()}}


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with replacing(path) as (temporary,):
        _dump(temporary, value)


def _dump(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(_text(value), encoding="utf-8")
    flush(path)


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _table(schema: pa.Schema, rows: Sequence[Any]) -> pa.Table:
    if schema is UNIT_ROWS_SCHEMA:
        return pa.concat_tables([schema.empty_table(), *rows]).combine_chunks()
    return pa.Table.from_pylist(list(rows), schema=schema)


def _unused(spec: SweepSpec) -> set[str]:
    """Keys of later versions that are left out where they are not used."""
    return {key for key in ("ensemble", "bounds") if not getattr(spec, key)}
