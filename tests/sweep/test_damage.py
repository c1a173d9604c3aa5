"""Torn and damaged files are noticed, named, and computed again."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import SweepError
from stepsim.sweep import (
    compare,
    design_costs,
    open_table,
    query,
    read_designs,
    read_runs,
    run_sweep,
)
from stepsim.sweep.storage.digests import digest_of
from tests.property_profile import THOROUGH
from tests.samples import sampled
from tests.sweep.support import (
    assert_as_undisturbed,
    disturb_after,
    rows_of,
    saved,
    tiny,
)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def every_file(folder: Path) -> list[Path]:
    """All that carry results, or say what results they are."""
    return [folder / "sweep.json", folder / "digests.jsonl", *sorted(folder.rglob("*.parquet"))]


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with a complete design point and finished chunks of the next one."""
    folder = tmp_path_factory.mktemp("half") / "out"
    disturb_after(folder, 3)
    assert len(every_file(folder)) == 2 + 2 + 2
    return folder


def looked_at(folder: Path) -> list[Any]:
    """What all ways to read a folder have to say."""
    return [
        open_table(folder).to_table().to_pylist(),
        open_table(folder, "failures").to_table().to_pylist(),
        query(folder, "select run, cycles from runs order by run").to_pylist(),
        asdict(design_costs(folder, "onchip_bytes", "cycles")),
        asdict(compare(folder, folder)),
    ]


@contextmanager
def refusals(wanted: list[str]) -> Iterator[None]:
    """Keep what is said of a folder that is refused."""
    try:
        yield
    except SweepError as error:
        wanted.append(str(error))


def check_flipped_bits(half: Path, place: Path, draws: int, seed: int) -> None:
    """Whoever reads says what was written, or names the file; resumed, it is as undisturbed."""
    dice = random.Random(seed)
    expected = looked_at(half)
    run_sweep(tiny(), place / "undisturbed")
    whole = rows_of(place / "undisturbed")
    for draw in range(draws):
        folder = place / f"flipped-{draw}"
        shutil.copytree(half, folder)
        path = dice.choice(every_file(folder))
        content = bytearray(path.read_bytes())
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        path.write_bytes(content)
        wanted: list[str] = []
        with refusals(wanted):
            assert looked_at(folder) == expected, path
        with refusals(wanted):
            assert run_sweep(tiny(), folder, resume=True).complete
            assert rows_of(folder) == whole, path
        assert all(str(folder) in text for text in wanted), wanted
        shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.fuzz
def test_flipped_bits_give_no_wrong_number(half: Path, tmp_path: Path) -> None:
    check_flipped_bits(half, tmp_path, 400 if THOROUGH else 40, seed=2)


READERS: list[Callable[[Path], object]] = [
    open_table,
    lambda folder: read_runs(folder, ["cycles"]),
    lambda folder: query(folder, "select 1"),
    lambda folder: design_costs(folder, "onchip_bytes", "cycles"),
    lambda folder: compare(folder, folder),
    read_designs,
]


def assert_all_name(folder: Path, message: str, readers: int = 5) -> None:
    for look in READERS[:readers]:
        with pytest.raises(SweepError, match=re.escape(message)):
            look(folder)


def edit_a_row(path: Path) -> None:
    """Another number in a file that is whole as far as Parquet can tell."""
    table = pq.ParquetFile(path).read()
    rows = table.to_pylist()
    rows[0]["cycles"] += 1
    pq.write_table(
        pa.Table.from_pylist(rows, schema=table.schema),
        path, compression="zstd", write_page_checksum=True,
    )  # fmt: skip


@pytest.mark.slow
def test_an_edited_row_is_named(half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(half, folder)
    chunk = folder / "parts" / "0001-00000.runs.parquet"
    edit_a_row(chunk)
    assert_all_name(folder, f"{chunk}: is damaged (")
    summary = run_sweep(tiny(), folder, resume=True)
    assert [text.startswith(f"{chunk}: is damaged (") for text in summary.damaged] == [True]
    assert_as_undisturbed(folder)
    (point, *_) = sorted((folder / "runs").rglob("part.parquet"))
    before = rows_of(folder)
    edit_a_row(point)
    assert_all_name(folder, f"{point}: is damaged (")
    with pytest.raises(SweepError, match=re.escape(f"delete {point} and run the sweep again")):
        run_sweep(tiny(), folder, resume=True)
    point.unlink()
    assert run_sweep(tiny(), folder, resume=True).computed == 6
    assert rows_of(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("with_digest", sampled([False, True], True))
def test_a_chunk_of_another_sweep_is_named(half: Path, tmp_path: Path, with_digest: bool) -> None:
    other, folder = tmp_path / "other", tmp_path / "out"
    run_sweep(tiny(grid={"tile": [4, 8]}), other)
    shutil.copytree(half, folder)
    chunk = folder / "parts" / "0001-00001.runs.parquet"
    shutil.copy(sorted((other / "runs").rglob("part.parquet"))[0], chunk)
    with_it = "0001-00001.failures.parquet"
    shutil.copy(folder / "parts" / "0001-00000.failures.parquet", folder / "parts" / with_it)
    why = "this sweep did not write it"
    if with_digest:
        line = json.loads((other / "digests.jsonl").read_text().splitlines()[1])
        line["files"] = {f"parts/{chunk.name}": list(digest_of(chunk))}
        with (folder / "digests.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        why = "it belongs to another sweep"
    # The others look at the failures first.
    assert_all_name(folder, f"{chunk}: is damaged ({why}", readers=2)
    (message,) = run_sweep(tiny(), folder, resume=True).damaged
    # Its files are looked at in the order of writing.
    assert message.startswith(f"{chunk.with_name(with_it)}: is damaged (this sweep did not write")
    assert_as_undisturbed(folder)


@pytest.mark.parametrize(
    "name",
    ["parts/0009-00000.runs.parquet", "parts/x.runs.parquet", "runs/design=mine/part.parquet"],
)
def test_a_file_that_no_sweep_has_is_named(half: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    shutil.copytree(half, folder)
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    shutil.copy(folder / "parts" / "0001-00000.runs.parquet", path)
    assert_all_name(folder, f"{path}: is damaged (this sweep did not write it", readers=3)
    with pytest.raises(SweepError, match="holds files that are not of this sweep") as caught:
        run_sweep(tiny(), folder, resume=True)
    assert str(path) in str(caught.value)


@contextmanager
def unreadable(path: Path, number: int) -> Iterator[None]:
    """Whoever opens the file in the block gets an error of the disk."""
    real = io.open

    def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if file == path and "r" in mode:
            raise OSError(number, os.strerror(number), str(file))
        return real(file, mode, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opened)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("number", sampled([errno.EIO, errno.EMFILE], errno.EIO))
@pytest.mark.parametrize(
    "name",
    ["parts/0001-00000.runs.parquet", "parts/0001-00000.failures.parquet", "runs", "failures"],
)
def test_what_cannot_be_read_is_not_called_damaged(
    half: Path, tmp_path: Path, name: str, number: int
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(half, folder)
    path = folder / name
    if path.is_dir():
        (path,) = path.rglob("part.parquet")
    before = {one: one.read_bytes() for one in every_file(folder)}
    message = re.escape(f"{path}: cannot be read ({os.strerror(number)}), so it is unknown")
    with unreadable(path, number):
        looks = [lambda: run_sweep(tiny(), folder, resume=True)]
        looks += [lambda: open_table(folder, "failures" if "failures" in name else "runs")]
        for look in looks:
            with pytest.raises(SweepError, match=message) as caught:
                look()
            assert "delete" not in str(caught.value)
    assert {one: one.read_bytes() for one in every_file(folder)} == before
    assert run_sweep(tiny(), folder, resume=True).computed == 24 - 10
    assert_as_undisturbed(folder)


def test_digests_that_cannot_be_read_are_not_called_absent(half: Path) -> None:
    path = half / "digests.jsonl"
    with unreadable(path, errno.EIO):
        assert_all_name(half, f"{path}: cannot be read (Input/output error)", readers=6)


def test_a_table_of_failures_that_is_gone_is_missed(half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(half, folder)
    (path,) = (folder / "failures").rglob("part.parquet")
    path.unlink()
    with pytest.raises(SweepError, match=re.escape(f"{path}: is missing; delete ")):
        open_table(folder, "failures")


def test_a_sweep_without_digests_is_not_believed(half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(half, folder)
    (folder / "digests.jsonl").unlink()
    message = f"{folder}: has no digests.jsonl, without which it is unknown"
    assert_all_name(folder, message, readers=6)
    with pytest.raises(SweepError, match=re.escape(message)):
        run_sweep(tiny(), folder, resume=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "sweep.json: cannot be used, expected a JSON object with the keys"),
        ("null", "sweep.json: cannot be used, expected a JSON object with the keys"),
        ("[" * 1000 + "]" * 1000, "sweep.json:1:41: expected lists and mappings at most 40 deep"),
        ('{"a":' * 100_000, "sweep.json:1:"),
        ("{", "sweep.json:1:2: not valid JSON"),
    ],
)
def test_a_manifest_that_is_none_is_an_error_with_the_place(
    half: Path, tmp_path: Path, content: str, message: str
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(half, folder)
    (folder / "sweep.json").write_text(content)
    assert_all_name(folder, message, readers=6)
    with pytest.raises(SweepError, match=re.escape(message)):
        run_sweep(tiny(), folder, resume=True)


def test_an_edited_manifest_is_named(half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(half, folder)
    path = folder / "sweep.json"
    path.write_text(path.read_text().replace('"runs": 24', '"runs": 12'))
    message = f"{path}: is damaged (its SHA-256 is "
    assert_all_name(folder, message, readers=6)
    with pytest.raises(SweepError, match=re.escape(message)):
        run_sweep(tiny(), folder, resume=True)
