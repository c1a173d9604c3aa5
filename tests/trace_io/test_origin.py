"""A routing file says where it comes from."""

from __future__ import annotations

from pathlib import Path

from stepsim.trace_io import read_origin, read_routing, synthetic_routing, write_routing


def test_the_origin_comes_back_and_changes_no_row(tmp_path: Path) -> None:
    table = synthetic_routing(16, 8, 2, seed=3)
    write_routing([table], tmp_path / "plain.parquet")
    write_routing([table], tmp_path / "noted.parquet", origin={"seed": 3, "experts": 8})
    assert read_origin(tmp_path / "plain.parquet") == {}
    assert read_origin(tmp_path / "noted.parquet") == {"seed": 3, "experts": 8}
    assert read_routing(tmp_path / "noted.parquet") == read_routing(tmp_path / "plain.parquet")


def test_other_files_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("layer,expert\n0,1\n")
    assert read_origin(tmp_path / "text") == {}
    assert read_origin(tmp_path / "absent") == {}
