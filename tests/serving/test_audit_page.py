"""The errors of audited steps in docs/serving.md are those that were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.audited import rows_in, table_of
from tests.pages import DOCS

_RECORDED = sorted((Path(DOCS).parent / "bench").glob("audited_*.csv"))


@pytest.mark.parametrize("path", _RECORDED, ids=lambda path: path.stem)
def test_tables_are_those_of_the_recorded_rows(path: Path) -> None:
    assert table_of(rows_in(path)) in (DOCS / "serving.md").read_text(encoding="utf-8")


def test_each_seed_is_recorded_once() -> None:
    assert len(_RECORDED) >= 2
    for path in _RECORDED:
        seeds = [row["seed"] for row in rows_in(path)]
        assert len(seeds) == len(set(seeds)), path
