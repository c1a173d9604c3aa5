"""Readers of a folder that changes meanwhile, or has files too few or too many."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import OutputError, SweepError
from stepsim.sweep import design_costs, open_table, query, read_runs, run_sweep
from stepsim.sweep.analysis import tables
from stepsim.sweep.analysis.tables import read_failures
from stepsim.sweep.storage import files
from tests.sweep.support import assert_as_undisturbed, disturb_after, rows_of, tiny
from tests.sweep.test_damage import unreadable

SPEC = tiny(grid={"tile": [2, "dynamic"]})
RUNS = 12


@pytest.fixture(scope="module")
def half_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete design point, and one chunk of the other one."""
    folder = tmp_path_factory.mktemp("half") / "out"
    disturb_after(folder, 3, SPEC)
    return folder


@pytest.fixture(scope="module")
def all_of_two(half_of_two: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "out"
    shutil.copytree(half_of_two, folder)
    assert run_sweep(SPEC, folder, resume=True).complete
    return folder


@pytest.fixture
def half(half_of_two: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(half_of_two, tmp_path / "out"))


@pytest.fixture
def whole(all_of_two: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(all_of_two, tmp_path / "out"))


def finish(folder: Path) -> None:
    """What another process does while this one reads."""
    run_sweep(SPEC, folder, resume=True)


COUNTS: list[Callable[[Path], int]] = [
    lambda folder: int(open_table(folder).count_rows()),
    lambda folder: read_runs(folder, ["cycles"], ok_only=False).num_rows,
    lambda folder: int(query(folder, "select count(*) as n from runs")["n"][0].as_py()),
]


@pytest.mark.slow
def test_a_sweep_that_ends_after_the_list_of_files_loses_no_rows(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = files.table_files
    listings = 0

    def listed(folder: Path, name: str) -> Any:
        nonlocal listings
        found = real(folder, name)
        listings += 1
        if listings == 1:
            finish(half)
        return found

    monkeypatch.setattr(tables, "table_files", listed)
    assert open_table(half).count_rows() == RUNS
    assert listings > 1


def test_a_sweep_that_ends_within_the_list_of_files_loses_no_rows(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = files.parquet_files
    listings = 0

    def listed(folder: Path) -> frozenset[Path]:
        nonlocal listings
        found = real(folder)
        listings += 1
        if listings == 1:
            finish(half)
        return found

    monkeypatch.setattr(files, "parquet_files", listed)
    assert open_table(half).count_rows() == RUNS


@pytest.mark.parametrize("count", [1, 2])
def test_a_sweep_that_ends_before_the_files_are_opened_loses_no_rows(
    half: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    real = tables.open_table
    opened = 0

    def opening(folder: Path, name: str) -> Any:
        nonlocal opened
        table = real(folder, name)
        if name == "runs":
            opened += 1
            if opened == 1:
                finish(half)
        return table

    monkeypatch.setattr(tables, "open_table", opening)
    assert COUNTS[count](half) == RUNS
    assert opened == 2


def test_files_of_a_complete_sweep_that_are_gone_are_missed(whole: Path) -> None:
    path = sorted((whole / "runs").rglob("part.parquet"))[1]
    content = path.read_bytes()
    message = re.escape(f"{path}: is missing; run the sweep again with --resume")
    path.unlink()
    with pytest.raises(SweepError, match=message):
        read_failures(whole, ["run"])
    for link in (False, True):
        if link:
            path.symlink_to(whole / "nowhere")
        for count in (*COUNTS, lambda folder: design_costs(folder, "onchip_bytes", "cycles")):
            with pytest.raises(SweepError, match=message):
                count(whole)
    path.unlink()
    path.write_bytes(content)
    assert [count(whole) for count in COUNTS] == [RUNS] * 3


def test_a_folder_that_cannot_be_listed_hides_no_rows(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path) == half / "parts":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(SweepError, match=re.escape(f"{half}/parts: cannot be read (Permission")):
        open_table(half)


@pytest.mark.parametrize("name", ["failures", "units"])
def test_a_foreign_file_without_runs_is_named(whole: Path, name: str) -> None:
    path = whole / name / "design=mine" / "part.parquet"
    path.parent.mkdir(parents=True)
    shutil.copy(next((whole / "failures").rglob("part.parquet")), path)
    assert open_table(whole).count_rows() == RUNS
    message = re.escape(f"{path}: is damaged (this sweep did not write it")
    for look in (lambda: open_table(whole, name), lambda: query(whole, "from runs")):
        with pytest.raises(SweepError, match=message):
            look()


def test_files_of_a_join_that_was_killed_are_no_foreign_ones(half: Path) -> None:
    (runs,) = (half / "runs").rglob("part.parquet")
    runs.unlink()
    assert read_failures(half, ["run"]).num_rows == 0
    assert open_table(half, "failures").files == [str(half / "parts/0001-00000.failures.parquet")]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_sweep_is_not_resumed_without_reading_its_digests(half: Path, number: int) -> None:
    path = half / "digests.jsonl"
    message = re.escape(f"{path}: cannot be read ({os.strerror(number)})")
    with unreadable(path, number), pytest.raises(SweepError, match=message):
        finish(half)


def test_what_arrow_cannot_read_of_whole_files_is_an_error_of_the_sweep(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tables.open_table

    class Failing:
        def __init__(self, table: Any) -> None:
            self.schema, self.files = table.schema, table.files

        def to_table(self, **options: Any) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(tables, "open_table", lambda *args: Failing(real(*args)))
    with pytest.raises(SweepError, match=r"the runs cannot be read .*Too many open files"):
        read_runs(half, ["cycles"])


def damage_line(folder: Path, number: int) -> None:
    path = folder / "digests.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = lines[number - 1].replace(b'"', b"#", 1)
    path.write_bytes(b"\n".join(lines))


def test_a_damaged_digest_of_the_manifest_is_written_again(half: Path) -> None:
    damage_line(half, 1)
    digests = half / "digests.jsonl"
    message = f"{half}/sweep.json: cannot be checked, because line 1 is damaged in {digests}"
    with pytest.raises(SweepError, match=re.escape(f"{message}; continue with --resume")):
        open_table(half)
    finish(half)
    assert open_table(half).count_rows() == RUNS


def test_another_digest_of_the_manifest_is_written_again(half: Path) -> None:
    digests = half / "digests.jsonl"
    first, rest = digests.read_text().split("\n", 1)
    line = json.loads(first)
    size, sha256 = line["files"]["sweep.json"]
    line["files"]["sweep.json"] = [size, sha256[::-1]]
    digests.write_text(json.dumps(line) + "\n" + rest)
    with pytest.raises(SweepError, match="works if only the digest is damaged"):
        open_table(half)
    finish(half)
    assert open_table(half).count_rows() == RUNS


def test_a_damaged_digest_of_a_design_point_is_told_from_a_damaged_file(whole: Path) -> None:
    damage_line(whole, 3)
    path = sorted((whole / "runs").rglob("part.parquet"))[1]
    for look in (open_table, finish):
        with pytest.raises(SweepError, match="cannot be checked, because line 3 is") as caught:
            look(whole)
        assert "restore digests.jsonl, or delete " in str(caught.value)
    before = rows_of(whole)
    path.unlink()
    finish(whole)
    assert rows_of(whole) == before


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("lines", ["whole", "damaged"])
def test_a_folder_that_lost_its_manifest_is_left_alone(
    half: Path, resume: bool, lines: str
) -> None:
    (half / "sweep.json").unlink()
    if lines == "damaged":
        (half / "digests.jsonl").write_text("#\n")
    before = {path: path.read_bytes() for path in half.rglob("*") if path.is_file()}
    with pytest.raises(SweepError, match=re.escape(f"{half}: holds results of a sweep, but its")):
        run_sweep(SPEC, half, resume=resume)
    assert {path: path.read_bytes() for path in half.rglob("*") if path.is_file()} == before


def test_a_start_that_was_killed_before_the_manifest_goes_on(half: Path, tmp_path: Path) -> None:
    other = tmp_path / "killed"
    other.mkdir()
    with (half / "digests.jsonl").open() as file:
        (other / "digests.jsonl").write_text(file.readline())
    assert run_sweep(SPEC, other).complete


@pytest.mark.parametrize("name", ["runs", "failures"])
def test_a_folder_in_the_place_of_a_chunk_is_to_be_removed(half: Path, name: str) -> None:
    path = half / "parts" / f"0001-00000.{name}.parquet"
    path.unlink()
    path.mkdir()
    for look in (finish, lambda folder: open_table(folder, name)):
        with pytest.raises(SweepError, match=re.escape(f"{path}: is a folder")) as caught:
            look(half)
        assert "remove the folder and run the sweep again with --resume" in str(caught.value)
    path.rmdir()
    finish(half)
    assert open_table(half).count_rows() == RUNS


def test_a_folder_with_a_temporary_name_is_to_be_removed(half: Path) -> None:
    path = half / "parts" / ".0001-00000.runs.parquet.abc.tmp"
    path.mkdir()
    with pytest.raises(OutputError, match=re.escape(f"remove the folder {path}, which")):
        finish(half)


def test_an_error_of_the_disk_without_a_name_names_the_folder(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(OutputError, match=re.escape(f"{half}: cannot be changed (Input/output")):
        finish(half)


@pytest.mark.slow
def test_a_chunk_that_is_a_link_to_nothing_runs_again(half: Path) -> None:
    path = half / "parts" / "0001-00000.runs.parquet"
    path.unlink()
    path.symlink_to(half / "nowhere")
    with pytest.raises(SweepError, match=re.escape(f"{path}: is missing")):
        open_table(half)
    finish(half)
    assert_as_undisturbed(half, SPEC)
