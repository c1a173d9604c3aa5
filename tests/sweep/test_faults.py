"""Whatever call fails, once, a sweep that is resumed has the same bytes."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim import atomic
from stepsim.cli.exit_codes import NOT_WRITTEN
from stepsim.errors import OutputError, StepSimError
from stepsim.sweep import plan_sweep, run_sweep
from stepsim.sweep.backends import LocalBackend
from stepsim.sweep.planning.plan import Chunk, Plan
from stepsim.sweep.running.work import ChunkRows, execute_chunk
from stepsim.sweep.storage import digests, disk, lines, manifest, parquet, store
from tests.faults import Faults, MemoryFaults
from tests.property_profile import THOROUGH
from tests.samples import sampled
from tests.sweep.support import ROOT, rows_of, sweep_command, tiny

SPEC = tiny(grid={"tile": [2, "dynamic"]}, chunk=3, units=True)
"""Two design points of two chunks, with all tables."""

STEP = 37
"""Of the places, `make test` takes every 37th: a prime, because the calls come in threes."""

MANY = 1 if THOROUGH else 11
"""Of the places, `make slow` takes every eleventh; thoroughly, all of them."""

TEMPORARY = re.compile(r"^(?:open|replace) \.(.+)\.[0-9a-f]{12}\.tmp$")
"""A call that says of which file with its final name it is a part."""

few_or_all = pytest.mark.parametrize(
    "step", [pytest.param(STEP, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]
)


class Sweep:
    """One sweep to run again and again; what is computed is computed once."""

    def __init__(self) -> None:
        self.plan: Plan = plan_sweep(SPEC)
        self._rows: dict[str, ChunkRows] = {}

    def run(self, folder: Path, *, resume: bool = False) -> None:
        run_sweep(self.plan, folder, backend=LocalBackend(1, self._work), resume=resume)

    def _work(self, chunk: Chunk) -> ChunkRows:
        if chunk.key not in self._rows:
            self._rows[chunk.key] = execute_chunk(chunk)
        return self._rows[chunk.key]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep that has run once, so that nothing is imported or compiled any more."""
    made = Sweep()
    made.run(tmp_path_factory.mktemp("first"))
    return made


def _all_bytes(folder: Path) -> dict[str, bytes]:
    """What a sweep leaves, but for the times."""
    return rows_of(folder) | {
        name: (folder / name).read_bytes() for name in ("sweep.json", "summary.json")
    }


def _nothing_half(folder: Path) -> None:
    """Nothing temporary, and whatever has a final name is whole."""
    assert not list(folder.rglob(".*.tmp"))
    for path in folder.rglob("*.parquet"):
        pq.ParquetFile(path, page_checksum_verification=True).read()
    for path in folder.glob("*.json"):
        json.loads(path.read_text())


class Outcome(NamedTuple):
    """How a run ended. Not the error itself, which keeps alive what was open."""

    kind: type[BaseException]
    text: str


def _outcome(run: Callable[[], None]) -> Outcome | None:
    try:
        run()
    except Exception as error:
        return Outcome(type(error), str(error))
    return None


def _resumed(sweep: Sweep, folder: Path, expected: dict[str, bytes]) -> None:
    sweep.run(folder, resume=True)
    assert _all_bytes(folder) == expected
    assert not list((folder / "parts").iterdir())
    assert not list(folder.rglob(".*.tmp"))


@pytest.mark.slow
@few_or_all
def test_every_call_that_fails_once_costs_a_resume_at_most(
    sweep: Sweep, tmp_path: Path, step: int
) -> None:
    with Faults(tmp_path / "clean") as clean:
        sweep.run(tmp_path / "clean")
    expected = _all_bytes(tmp_path / "clean")
    assert len(clean.calls) > 100
    for number in range(0, len(clean.calls), step):
        call = f"call {number}: {clean.calls[number]}"
        folder = tmp_path / str(number)
        with Faults(folder, number) as faults:
            outcome = _outcome(partial(sweep.run, folder))
        assert faults.failed, call
        if outcome is None:  # of what is temporary and gone already
            assert clean.calls[number].startswith("unlink ."), call
        else:
            assert issubclass(outcome.kind, StepSimError), (call, outcome)
            claimed = (folder / ".lock").exists()
            advice = "continue with --resume" if claimed else "choose another folder"
            assert advice in outcome.text, (call, outcome)
            if named := TEMPORARY.search(clean.calls[number]):
                assert named[1] in outcome.text, (call, outcome)
        _nothing_half(folder)
        _resumed(sweep, folder, expected)


# Python itself may lose an open file between the line that opens it and the next.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@few_or_all
def test_memory_that_ends_at_any_line_costs_a_resume_at_most(
    sweep: Sweep, tmp_path: Path, step: int
) -> None:
    modules = (store, parquet, digests, disk, lines, manifest, atomic)
    with MemoryFaults(modules) as clean:
        sweep.run(tmp_path / "clean")
    expected = _all_bytes(tmp_path / "clean")
    # Where a line runs for the first and for the last time; between them it finds nothing new.
    first = {line: number for number, line in reversed(list(enumerate(clean.lines)))}
    last = {line: number for number, line in enumerate(clean.lines)}
    for number in sorted({*first.values(), *last.values()})[::step]:
        folder = tmp_path / str(number)
        with MemoryFaults(modules, number):
            outcome = _outcome(partial(sweep.run, folder))
        place = f"line {number}: {clean.lines[number]}"
        assert outcome is not None, place
        assert issubclass(outcome.kind, StepSimError), (place, outcome)
        assert "continue with --resume" in outcome.text, (place, outcome)
        _nothing_half(folder)
        _resumed(sweep, folder, expected)


def _small_files(size: int) -> Callable[[], Any]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    paths = [tmp_path / "a.failures.parquet", tmp_path / "a.runs.parquet"]
    tables = dict.fromkeys(paths, pa.table({"a": [1]}))
    with Faults(tmp_path) as clean:
        parquet.write_tables(tables, digests.Digests(tmp_path, "plan"))
    of_second = [n for n, call in enumerate(clean.calls) if "a.runs.parquet" in call]
    for number in of_second[:2]:
        with Faults(tmp_path, number), pytest.raises(OutputError) as caught:
            parquet.write_tables(tables, digests.Digests(tmp_path, "plan"))
        assert str(caught.value).startswith(f"{paths[1]}: cannot be written ("), clean.calls[number]
        assert str(caught.value).endswith("continue with --resume")


def test_names_are_on_the_disk_before_what_they_are_joined_of_goes(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    # Folders that hold names which a power cut may lose, and what is lost for good.
    unsafe: set[str] = set()
    removed: list[str] = []
    real_sync, real_unlink = os.fsync, os.unlink
    real_replace, real_mkdir = os.replace, os.mkdir

    def fsync(handle: int) -> None:
        real_sync(handle)
        unsafe.discard(os.path.realpath(f"/proc/self/fd/{handle}"))

    def replace(old: Path, new: Path) -> None:
        real_replace(old, new)
        unsafe.add(str(Path(new).parent))

    def mkdir(path: Path, *mode: int) -> None:
        real_mkdir(path, *mode)
        if path != folder:
            unsafe.add(str(Path(path).parent))

    def unlink(path: Path) -> None:
        real_unlink(path)
        if path.parent.name == "parts" and path.suffix == ".parquet":
            removed.append(path.name)
            assert unsafe <= {str(folder / "parts")}, path

    for name, patched in (
        ("fsync", fsync), ("replace", replace), ("mkdir", mkdir), ("unlink", unlink),
    ):  # fmt: skip
        monkeypatch.setattr(os, name, patched)
    sweep.run(folder)
    assert len(removed) == 4 * 3


@pytest.mark.long
@pytest.mark.parametrize("size", sampled([0, 100, 3000, 5000], 3000))
def test_a_disk_that_takes_no_more(sweep: Sweep, tmp_path: Path, size: int) -> None:
    # The system refuses the write itself, so that what is buffered counts, too.
    folder = tmp_path / "out"
    command = sweep_command(SPEC, folder)
    done = subprocess.run(
        command, cwd=ROOT, preexec_fn=_small_files(size), capture_output=True, text=True,
        # Python takes bytecode that it could write only in part for whole.
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == NOT_WRITTEN, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    _nothing_half(folder)
    sweep.run(folder, resume=True)
    sweep.run(tmp_path / "other")
    assert rows_of(folder) == rows_of(tmp_path / "other")
    assert not list(folder.rglob(".*.tmp"))
