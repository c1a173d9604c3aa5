"""A workload: a tiled product of two matrices, with an activation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import stepsim as st


@dataclass(frozen=True, kw_only=True)
class Gemm(st.workloads.Workload):
    """Product of two matrices, a tile of rows at a time, and its rectified values."""

    name: ClassVar = "gemm"

    m: Annotated[int, st.workloads.Param("rows of the product", "rows")] = 256
    tile: Annotated[int, st.workloads.Param("rows per tile", "rows", text=True)] = 16

    def check(self, data: st.workloads.Data) -> Iterator[tuple[str, str]]:
        if self.m % self.tile:
            yield "tile", f"expected a divisor of m = {self.m}, found {self.tile}"

    def build(self, data: st.workloads.Data) -> st.workloads.Built:
        self.checked(data)
        with st.Program("gemm", compute_bw=1024) as program:
            a = st.linear_load(st.spec(self.m, 64), tile=(self.tile, 64)).flatten(0, 1)
            b = st.linear_load(st.spec(64, 64), tile=(64, 64), ref=a).flatten(0, 1).flatten(0, 1)
            st.linear_store(st.map(st.fn.leaky_relu, st.map(st.fn.matmul, a, b)), "c")
        return st.workloads.Built(program)
