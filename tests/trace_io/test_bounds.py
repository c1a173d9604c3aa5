"""How much is held at a time, counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.trace_io import routing_parts, synthetic_routing
from stepsim.trace_io.formats.lengths import _text_lengths
from stepsim.trace_io.routing import parts
from stepsim.trace_io.routing.parts import ArrowParts
from stepsim.trace_io.writer import ParquetStream, RowGroups

MADE = [synthetic_routing(40, 16, 4, seed=1, layer=layer) for layer in range(6)]


@pytest.fixture
def held(monkeypatch) -> list[int]:
    """The rows that are held after each reading of a piece."""
    counts: list[int] = []
    real = ArrowParts._decode

    def decode(self, number):
        found = real(self, number)
        counts.append(sum(self._pieces[i].rows for i in self._decoded))
        return found

    monkeypatch.setattr(ArrowParts, "_decode", decode)
    return counts


@pytest.mark.parametrize(("kept", "most"), [(0, 20), (35, 30), (1 << 19, 240)])
def test_row_groups_that_were_read_are_forgotten(tmp_path, monkeypatch, held, kept, most):
    table = pa.concat_tables([part.to_arrow() for part in MADE])
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10)
    monkeypatch.setattr(parts, "_KEPT_ROWS", kept)
    assert [part.read() for part in routing_parts(tmp_path / "t.parquet")] == MADE
    assert (len(held), max(held)) == (24, most)


def test_a_row_group_ends_by_its_bytes(tmp_path, monkeypatch):
    wide = pa.table({"x": np.arange(300)})
    monkeypatch.setattr("stepsim.trace_io.writer._MAX_BYTES", 800)
    groups = RowGroups()
    found = [group for at in range(0, 300, 50) for group in groups.add(wide[at : at + 50])]
    assert [group.nbytes for group in found] == [800, 800, 800]
    assert list(groups.rest()) == []
    with ParquetStream(tmp_path / "t.parquet") as file:
        for at in range(0, 300, 50):
            file.write(wide[at : at + 50])
    assert pq.read_table(tmp_path / "t.parquet").equals(wide)
    assert pq.read_metadata(tmp_path / "t.parquet").num_row_groups == 3


def test_lengths_in_text_come_by_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr("stepsim.trace_io.sources.text._BLOCK_BYTES", 6)
    (tmp_path / "x.txt").write_text("\n".join(map(str, range(10))))
    pieces = _text_lengths(tmp_path / "x.txt", None)
    assert [values.tolist() for values, *_ in pieces] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
