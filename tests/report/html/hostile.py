"""A run whose names try to become markup or script."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.results.writing import neighbor

__all__ = ["NAMES", "write_hostile_run"]

NAMES = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    "<img src=x onerror='window.hacked = 3'>",
    '"><svg onload=window.hacked=4>',
    "{{SCRIPTS}}<!--",
    "line\u2028separator\u2029 & <b>bold</b>",
)


def write_hostile_run(source: Path, target: Path) -> None:
    """Copy the run in ``source`` with other names of its first units and in its row."""
    units = pq.read_table(neighbor(source, "units"))
    fifos = pq.read_table(neighbor(source, "fifos"))
    new = dict(zip(units["name"].to_pylist(), NAMES, strict=False))
    units = _renamed(units, ("name", "longest_wait"), new)
    units = _renamed(units, ("operator",), {units["operator"][2].as_py(): NAMES[1]})
    pq.write_table(units, neighbor(target, "units"))
    fifos = _renamed(fifos, ("name", "producer", "consumer"), new)
    pq.write_table(fifos, neighbor(target, "fifos"))
    row = pq.read_table(source)
    for column in ("workload", "trace", "model"):
        row = _renamed(row, (column,), {row[column][0].as_py(): NAMES[1]})
    pq.write_table(row, target)


def _renamed(table: pa.Table, columns: tuple[str, ...], new: dict[str, str]) -> pa.Table:
    for name in columns:
        index = table.schema.get_field_index(name)
        values = [new.get(value, value) for value in table[name].to_pylist()]
        table = table.set_column(index, table.schema.field(name), pa.array(values, pa.string()))
    return table
