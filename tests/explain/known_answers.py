"""Ten programs made so that it is known what bounds them and what helps most.

They were written before `stepsim.explain`, from the timing rules alone. The first change of each
is built here as a program of its own, without any machinery of what-ifs, so that the gain that is
stated for it can be compared to the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import stepsim as st

__all__ = ["KNOWN_ANSWERS", "KnownAnswer"]

_FAST = 1 << 20
"""FLOPs per cycle of operators that are to take no time."""


@dataclass(frozen=True)
class KnownAnswer:
    """A program, what bounds it, and the change that is to be named first.

    Attributes
    ----------
    build : the program; its arguments are what can be changed.
    kind, targets : of the verdict; the targets are labels of operators, or of those that send on
        the FIFOs meant.
    change : kind of the first suggestion.
    changed : arguments of `build` with the change made.
    machine, changed_machine : changes of ``sda-1024``, before and after.
    cycles, changed_cycles : of both runs, from runs of the two programs.
    """

    name: str
    build: Callable[..., st.Program]
    kind: str
    change: str
    cycles: int
    changed_cycles: int
    targets: tuple[str, ...] = ()
    changed: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    changed_machine: Mapping[str, Any] = field(default_factory=dict)

    def before(self) -> tuple[st.Program, st.Machine]:
        """The program and its machine."""
        return self.build(), st.load_machine("sda-1024", dict(self.machine))

    def after(self) -> tuple[st.Program, st.Machine]:
        """Both with the first change made."""
        overrides = {**self.machine, **self.changed_machine}
        return self.build(**self.changed), st.load_machine("sda-1024", overrides)


def parallel_loads() -> st.Program:
    """Eight loads of wide tiles that nobody keeps waiting: 1,024 cycles on the bus."""
    with st.Program("parallel_loads", compute_bw=_FAST, par_dispatch=16) as program:
        for i in range(8):
            load = st.spec(64 * 16, 64, name=f"x{i}")
            st.linear_load(load, tile=(64, 64), label=f"load.{i}").consume()
    return program


def single_requests() -> st.Program:
    """100 tiles of one request each: one after the other, 19 cycles apart."""
    with st.Program("single_requests", compute_bw=_FAST) as program:
        st.linear_load(st.spec(100, 32, name="x"), tile=(1, 32), label="rows").consume()
    return program


def one_product(product_bw: int = 256) -> st.Program:
    """A product of 2,048 cycles per tile behind loads of some forty."""
    with st.Program("one_product", compute_bw=_FAST, par_dispatch=16) as program:
        a, b = (_tiles(name) for name in ("a", "b"))
        c = st.map(st.fn.matmul, a, b, compute_bw=product_bw, label="product")
        st.linear_store(c.map(st.fn.silu, label="silu"), "c", label="store")
    return program


def two_operands() -> st.Program:
    """A product of 128 cycles whose operands take 1,024 to come from on-chip memory."""
    with st.Program("two_operands", compute_bw=4096, par_dispatch=16) as program:
        a, b = (_tiles(name) for name in ("a", "b"))
        st.linear_store(st.map(st.fn.matmul, a, b, label="product"), "c", label="store")
    return program


def copies(depth: int = 2) -> st.Program:
    """Repetition under back-pressure: every wait for a slot delays all later copies of a token."""
    with st.Program("copies", compute_bw=_FAST) as program:
        st.metadata([1] * 8, label="numbers").repeat(64, label="copies").with_depth(depth).consume()
    return program


def chain(compute_bw: int = 64) -> st.Program:
    """One tile through six layers: nothing overlaps, and no unit is busy for long."""
    with st.Program("chain", compute_bw=compute_bw) as program:
        x = st.linear_load(st.spec(16, 16, name="x"), tile=(16, 16), label="x").flatten(0, 1)
        for i in range(6):
            weight = st.linear_load(
                st.spec(16, 16, name=f"w{i}"), tile=(16, 16), ref=x, label=f"weight.{i}"
            )
            y = weight.flatten(0, 1).flatten(0, 1)
            x = st.map(st.fn.matmul, x, y, label=f"layer.{i}")
        st.linear_store(x, "y", label="store")
    return program


_ROWS = 32
_EVEN = tuple((row % 4,) for row in range(_ROWS))
_SKEWED = tuple((0 if row % 8 else row // 8,) for row in range(_ROWS))
"""29 of 32 rows go to expert 0."""


def experts(
    indices: tuple[tuple[int], ...] = _EVEN, expert_bw: tuple[int, ...] = (16, 16, 16, 16)
) -> st.Program:
    """Four experts of 512 cycles per row, with FIFOs that hold all rows."""
    with st.Program("experts", compute_bw=_FAST, par_dispatch=16, fifo_depth=64) as program:
        table = st.routing([list(row) for row in indices], experts=4)
        x = st.linear_load(st.spec(_ROWS, 64, name="x"), tile=(1, 64), label="rows").flatten(0, 1)
        done = []
        for e, part in enumerate(st.partition(x, table.multihot(label="route"), label="dispatch")):
            load = st.spec(64, 64, name=f"w{e}")
            weight = st.linear_load(load, tile=(64, 64), ref=part, label=f"weight.{e}")
            y = weight.flatten(0, 1).flatten(0, 1)
            done.append(st.map(st.fn.matmul, part, y, compute_bw=expert_bw[e], label=f"expert.{e}"))
        out = st.reassemble(done, table.multihot(label="collect"), label="combine")
        st.linear_store(out, "out", label="store")
    return program


def skewed_experts(indices: tuple[tuple[int], ...] = _SKEWED) -> st.Program:
    """The same experts, and a router that sends nearly everything to one of them."""
    return experts(indices)


def slow_expert(slow_bw: int = 4) -> st.Program:
    """The same experts and as many rows for each, but expert 2 takes 2,048 cycles per row."""
    return experts(expert_bw=(16, 16, slow_bw, 16))


def centered(direct: int = 6, second: int | None = None) -> st.Program:
    """A row waits for the sum of all eight of its tokens, in FIFOs that hold hardly more than one.

    A token takes a cycle everywhere, so that no hardware makes it faster. With ``second``, the
    tokens wait in two FIFOs side by side, and the shorter one counts.
    """
    one = st.fn.add_const(1)
    with st.Program("centered", compute_bw=_FAST, fifo_depth=64) as program:
        x = st.metadata([1] * 64, label="x").repeat(8)  # [64, 8]
        x = x.map(one, label="act").with_depth(3)
        scale = x.accum(st.fn.add, rank=1, label="total")
        for i in range(4):
            scale = scale.map(one, label=f"scale.{i}")
        scale = scale.unsqueeze(0).expand(8)
        waiting = x.map(one, label="direct").with_depth(direct)
        y = st.map(st.fn.add, waiting, scale, label="center")
        if second is not None:
            other = x.map(one, label="second").with_depth(second)
            y = st.map(st.fn.add, other, y, label="again")
        y.consume()
    return program


def centered_twice(direct: int = 6, second: int = 8) -> st.Program:
    """Deepening one of the two FIFOs gives 0 of 1,486 cycles or none, both together 945."""
    return centered(direct, second)


def _tiles(name: str) -> st.Stream:
    load = st.linear_load(
        st.spec(64 * 16, 64, name=name), tile=(64, 64), label=f"load_{name}"
    )  # [16, 1]
    return load.flatten(0, 1)


_DEEP = 24
"""Tokens of three rows: what a FIFO of 6 needs when it is doubled until it is enough."""

KNOWN_ANSWERS = (
    KnownAnswer(
        "HBM bandwidth", parallel_loads, kind="hbm_bandwidth", change="hbm_bandwidth",
        changed_machine={"hbm.channels": 64}, cycles=1055, changed_cycles=573,
    ),
    KnownAnswer(
        "HBM latency", single_requests, kind="hbm_latency", targets=("rows",),
        change="hbm_latency", changed_machine={"hbm.latency": 1, "hbm.startup": 7},
        cycles=1903, changed_cycles=1103,
    ),
    KnownAnswer(
        "compute of one operator", one_product, kind="compute", targets=("product",),
        change="compute", changed={"product_bw": 512}, cycles=32836, changed_cycles=16452,
    ),
    KnownAnswer(
        "on-chip bandwidth", two_operands, kind="onchip_bandwidth", targets=("product",),
        change="onchip_bandwidth", machine={"onchip.bytes_per_cycle": 16},
        changed_machine={"onchip.bytes_per_cycle": 32}, cycles=16450, changed_cycles=8258,
    ),
    KnownAnswer(
        "back-pressure of a queue", copies, kind="back_pressure", targets=("copies",),
        change="fifo_depth", changed={"depth": 64}, cycles=5897, changed_cycles=517,
    ),
    KnownAnswer(
        "serial chain", chain, kind="serial_chain", change="compute",
        changed={"compute_bw": 128}, cycles=1075, changed_cycles=691,
    ),
    KnownAnswer(
        "imbalance of experts", skewed_experts, kind="imbalance", targets=("expert.0",),
        change="balance", changed={"indices": _EVEN}, cycles=14929, changed_cycles=4234,
    ),
    KnownAnswer(
        "slow expert", slow_expert, kind="compute", targets=("expert.2",), change="compute",
        changed={"slow_bw": 8}, cycles=16522, changed_cycles=8330,
    ),
    KnownAnswer(
        "short FIFO", centered, kind="back_pressure", targets=("act",), change="fifo_depth",
        changed={"direct": _DEEP}, cycles=1484, changed_cycles=539,
    ),
    KnownAnswer(
        "two changes that only help together", centered_twice, kind="back_pressure",
        targets=("direct", "second"), change="fifo_depth",
        changed={"direct": _DEEP, "second": _DEEP}, cycles=1486, changed_cycles=541,
    ),
)  # fmt: skip
