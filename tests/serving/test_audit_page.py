"""The errors of audited steps in docs/serving.md are those that were recorded."""

from __future__ import annotations

from pathlib import Path

from bench.audited import rows_in, table_of
from tests.pages import DOCS


def test_the_table_is_that_of_the_recorded_rows() -> None:
    rows = rows_in(Path(DOCS).parent / "bench" / "audited_llama-3-8b.csv")
    assert len(rows) == 20
    assert table_of(rows) in (DOCS / "serving.md").read_text(encoding="utf-8")
