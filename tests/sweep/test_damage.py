"""Torn and damaged files are noticed, named, and computed again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stepsim.errors import SweepError
from stepsim.sweep import open_table, query, read_runs, run_sweep
from tests.sweep.support import (
    assert_as_undisturbed,
    disturb_after,
    saved,
    tiny,
)


def test_torn_temporary_files_are_ignored_and_removed(tmp_path: Path) -> None:
    disturb_after(tmp_path, 3)
    torn = tmp_path / "parts" / ".0001-00001.runs.parquet.abc.tmp"
    torn.write_bytes(b"PAR1 torn")
    rows = saved(tmp_path)
    # The chunk of a kill between the renames of its files: no runs, so it does not count.
    (tmp_path / "parts" / "0003-00000.failures.parquet").write_bytes(b"PAR1 torn")
    assert saved(tmp_path) == rows
    run_sweep(tiny(), tmp_path, resume=True)
    assert not torn.exists()
    assert_as_undisturbed(tmp_path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    """Change one bit of the data and leave the footer, as a bad disk may."""
    content = bytearray(path.read_bytes())
    content[content.index(b"synthetic")] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [("runs", cut), ("runs", flip), ("failures", cut), ("failures", Path.unlink)],
)
def test_a_damaged_chunk_runs_again(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = tmp_path / "out"
    disturb_after(folder, 3)
    path = folder / "parts" / f"0001-00000.{name}.parquet"
    damage(path)
    summary = run_sweep(tiny(), folder, resume=True)
    (message,) = summary.damaged
    assert message.startswith(str(path))
    assert summary.computed == 24 - 6
    assert_as_undisturbed(folder)


@pytest.mark.parametrize("name", ["runs", "failures"])
def test_a_damaged_result_is_named(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    run_sweep(tiny(), folder)
    (path, *_) = sorted((folder / name).rglob("part.parquet"))
    (runs, *_) = sorted((folder / "runs").rglob("part.parquet"))
    cut(path)
    with pytest.raises(SweepError) as caught:
        run_sweep(tiny(), folder, resume=True)
    assert f"{path}: is damaged" in str(caught.value)
    assert f"delete {runs} and run the sweep again with --resume" in str(caught.value)
    if name == "runs":
        for look in (open_table, lambda folder: query(folder, "select 1")):
            with pytest.raises(SweepError, match=re.escape(f"{path}: is damaged")):
                look(folder)
    runs.unlink()
    assert run_sweep(tiny(), folder, resume=True).computed == 6
    assert_as_undisturbed(folder)


def test_a_flipped_bit_is_noticed_by_who_reads(tmp_path: Path) -> None:
    run_sweep(tiny(grid={"tile": [4]}), tmp_path)
    (path,) = (tmp_path / "runs").rglob("part.parquet")
    flip(path)
    for look in (lambda: read_runs(tmp_path, ["trace"]), lambda: query(tmp_path, "from runs")):
        with pytest.raises(SweepError, match=re.escape(f"{path}: is damaged")):
            look()


def flip_number(path: Path, column: str) -> None:
    """Change one bit of the first page of a column of numbers."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    (chunk,) = [chunk for chunk in columns if chunk.path_in_schema == column]
    content = bytearray(path.read_bytes())
    content[(chunk.dictionary_page_offset or chunk.data_page_offset) + 40] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("column", ["cycles", None])
def test_a_flipped_bit_of_a_complete_design_point_ends_a_resumed_sweep(
    tmp_path: Path, column: str | None
) -> None:
    run_sweep(tiny(), tmp_path)
    path = sorted((tmp_path / "runs").rglob("part.parquet"))[1]
    if column is None:  # the name of a column, which is in the footer
        content = bytearray(path.read_bytes())
        content[content.index(b"onchip_bytes")] ^= 1
        path.write_bytes(content)
    else:
        flip_number(path, column)
    assert pq.read_metadata(path).num_rows == 6
    before = path.read_bytes()
    with pytest.raises(SweepError) as caught:
        run_sweep(tiny(), tmp_path, resume=True)
    assert f"{path}: is damaged" in str(caught.value)
    assert f"delete {path} and run the sweep again with --resume" in str(caught.value)
    assert path.read_bytes() == before
    path.unlink()
    assert run_sweep(tiny(), tmp_path, resume=True).computed == 6
    assert_as_undisturbed(tmp_path)
