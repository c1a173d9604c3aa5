"""Files are complete or absent."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.atomic import replacing
from stepsim.errors import OutputError
from stepsim.results.writing import write_tables


def test_all_targets_appear_together(tmp_path: Path) -> None:
    targets = [tmp_path / "a", tmp_path / "b"]
    with replacing(*targets) as parts:
        for part in parts:
            part.write_text("new")
        assert not any(target.exists() for target in targets)
    assert [target.read_text() for target in targets] == ["new", "new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def _write_half(part: Path) -> None:
    part.write_text("half")
    raise KeyError(part)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    with pytest.raises(KeyError), replacing(target) as (part,):
        _write_half(part)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert target.read_text() == "old"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    with replacing(link) as (part,):
        part.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


@pytest.mark.parametrize("target", ["/dev/null", "."])
def test_devices_and_folders_are_refused(target: str) -> None:
    message = "it is a folder or a device; name a file"
    with pytest.raises(OutputError, match=message), replacing(target):
        pass
    assert Path("/dev/null").is_char_device()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    target = tmp_path / "none" / "a"
    with pytest.raises(OutputError) as caught, replacing(target) as (part,):
        part.write_text("new")
    assert str(caught.value) == (
        f"cannot write {target}: No such file or directory; "
        "choose a folder that exists, is writable and has space"
    )


def test_an_error_of_writing_is_worded_once(tmp_path: Path) -> None:
    error = OutputError("x: no space")
    with pytest.raises(OutputError) as caught, replacing(tmp_path / "a"):
        raise error
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_memory_is_worded(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="a: not enough memory; end other programs"):
        _write_without_memory(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def _write_without_memory(target: Path) -> None:
    with replacing(target) as (part,):
        part.write_text("half")
        raise MemoryError


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    target = tmp_path / "caf\udce9.parquet"
    with (
        pytest.raises(OutputError, match=r"caf.udce9.parquet': the path is not UTF-8"),
        replacing(target),
    ):
        pytest.fail("the block must not begin")
    assert list(tmp_path.iterdir()) == []


def test_names_that_look_like_addresses_are_names_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py:gemm").mkdir()
    tables = {"": pa.table({"a": [1, 2]})}
    for name in ("own.py:gemm/run.parquet", "s3:run.parquet"):
        write_tables(name, tables)
        assert pq.read_table(io.BytesIO(Path(name).read_bytes())).to_pydict() == {"a": [1, 2]}


def test_another_ending_than_that_of_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"run\.csv: expected a name that ends in \.parquet"):
        write_tables(tmp_path / "run.csv", {"": pa.table({"a": [1]})})
    assert not list(tmp_path.iterdir())
