"""Arrow, imported when first used: runs without tables need none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.deferred import deferred

__all__ = ["pa", "pc", "pq"]

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa = deferred("pyarrow")
    pc = deferred("pyarrow.compute")
    pq = deferred("pyarrow.parquet")
