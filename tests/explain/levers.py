"""Ten programs whose largest lever is known: what to change first, alone or two changes at once.

They were written before `stepsim.explain` tried changes of whole programs and pairs of them. Every
lever is an argument of the program or a value of its machine, so that its gain is that of a program
of its own, without any machinery of what-ifs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import stepsim as st

__all__ = ["LEVERS", "Lever"]

_FAST = 1 << 20
"""FLOPs per cycle of operators that are to take no time."""

_STEPS = (4, 16, 64)
"""Factors of the numbers of a program: requests issued per cycle, and tokens in a FIFO."""

_PLAIN = {"par_dispatch": 1, "fifo_depth": 2, "compute": 1}
"""Arguments of programs where a lever gives none."""


@dataclass(frozen=True)
class Made:
    """A change: arguments of the program, and values of the machine."""

    program: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)

    def __or__(self, other: Made) -> Made:
        return Made({**self.program, **other.program}, {**self.machine, **other.machine})


@dataclass(frozen=True)
class Lever:
    """A program and the kinds of changes that are its largest lever.

    Attributes
    ----------
    build : the program; ``par_dispatch`` and ``fifo_depth`` are those of the whole program, and
        ``compute`` is a factor of all compute bandwidths.
    kinds : of the largest lever; two of them if only a pair of changes helps.
    own : changes of this program alone, by kind.
    given : arguments and values before any change.
    """

    name: str
    build: Callable[..., st.Program]
    kinds: frozenset[str]
    own: Mapping[str, Made] = field(default_factory=dict)
    given: Made = field(default_factory=Made)

    def run(self, change: Made | None = None) -> int:
        """Cycles with a change."""
        program, machine = self.made(change)
        result = st.simulate(program, machine)
        assert result.status == "ok"
        return result.cycles

    def made(self, change: Made | None = None) -> tuple[st.Program, st.Machine]:
        """The program and its machine with a change."""
        made = self.given | (change or Made())
        machine = st.load_machine("sda-1024", dict(made.machine))
        return self.build(**{**_PLAIN, **made.program}), machine

    def singles(self) -> Iterator[tuple[str, Made]]:
        """Every single change, with its kind."""
        par, depth = ({**_PLAIN, **self.given.program}[name] for name in list(_PLAIN)[:2])
        onchip = self.given.machine.get("onchip.bytes_per_cycle", 64)
        for step in _STEPS:
            yield "hbm_port", Made({"par_dispatch": step * par})
            yield "fifo_depth", Made({"fifo_depth": step * depth})
        yield "compute", Made({"compute": 2})
        yield "hbm_bandwidth", Made({}, {"hbm.channels": 64})
        yield "hbm_latency", Made({}, {"hbm.latency": 1, "hbm.startup": 7})
        yield "onchip_bandwidth", Made({}, {"onchip.bytes_per_cycle": 2 * onchip})
        yield from self.own.items()

    def measured(self, *, pairs: bool) -> list[tuple[int, frozenset[str]]]:
        """Cycles and kinds of every single change, and of every two of different kinds."""
        singles = list(self.singles())
        found = [(self.run(one), frozenset((kind,))) for kind, one in singles]
        for (kind, one), (other_kind, other) in combinations(singles, 2) if pairs else ():
            if kind != other_kind:
                found.append((self.run(one | other), frozenset((kind, other_kind))))
        return found


def three_linears(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """Three layers one after the other: each waits for a weight, which is issued slowly."""
    with st.Program(
        "three", compute_bw=compute * 65536, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        x = st.linear_load(st.spec(16, 256, name="x"), tile=(16, 256))
        for _ in range(3):
            x = st.nn.linear(x, st.spec(256, 256))
        st.linear_store(x, "y")
    return program


def stores(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """One tile, stored 32 times in 128 requests each."""
    with st.Program(
        "stores", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        x = st.linear_load(st.spec(64, 64, name="x"), tile=(64, 64), label="x").flatten(0, 1)
        st.linear_store(x.map(st.fn.silu, label="silu").repeat(32), "y", label="store")
    return program


def products(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """Products whose operands take long to come from on-chip memory."""
    with st.Program(
        "products", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        a, b = (_tiles(name) for name in ("a", "b"))
        st.linear_store(st.map(st.fn.matmul, a, b, label="product"), "c", label="store")
    return program


def wide_loads(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """Eight loads that together use the whole bus."""
    with st.Program(
        "wide", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        for i in range(8):
            load = st.spec(64 * 16, 64, name=f"x{i}")
            st.linear_load(load, tile=(64, 64), label=f"load.{i}").consume()
    return program


def turns(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """One tile through six activations, which work one after the other."""
    with st.Program(
        "turns", compute_bw=compute * 64, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        x = st.linear_load(st.spec(64, 64, name="x"), tile=(64, 64), label="x").flatten(0, 1)
        for i in range(6):
            x = x.map(st.fn.silu, label=f"act.{i}")
        st.linear_store(x, "y", label="store")
    return program


def rejoined(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """Rows wait for what six activations make of their sum, in FIFOs that hold about one row."""
    with st.Program(
        "rejoined", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        x = st.linear_load(st.spec(32, 8 * 64, name="x"), tile=(1, 64), label="x")  # [32, 8]
        for i in range(2):
            scale = x.accum(st.fn.add, rank=1, label=f"total.{i}")
            for j in range(6):
                label = f"scale.{i}.{j}"
                scale = scale.map(st.fn.silu, compute_bw=compute * 4, label=label)
            for j in range(4):
                x = x.map(st.fn.silu, label=f"direct.{i}.{j}")
            x = st.map(st.fn.add, x, scale.unsqueeze(0).expand(8), label=f"center.{i}")
        x.consume()
    return program


_ROWS = 32
_EVEN = tuple((row % 4,) for row in range(_ROWS))
_SKEWED = tuple((0 if row % 8 else row // 8,) for row in range(_ROWS))
"""29 of 32 rows go to expert 0."""


def experts(
    par_dispatch: int,
    fifo_depth: int,
    compute: int,
    indices: tuple[tuple[int], ...] = _SKEWED,
) -> st.Program:
    """Four experts of 512 cycles per row, of which one gets nearly all rows."""
    with st.Program(
        "experts", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        table = st.routing([list(row) for row in indices], experts=4)
        x = st.linear_load(st.spec(_ROWS, 64, name="x"), tile=(1, 64), label="rows").flatten(0, 1)
        done = []
        for e, part in enumerate(st.partition(x, table.multihot(label="route"), label="dispatch")):
            load = st.spec(64, 64, name=f"w{e}")
            weight = st.linear_load(load, tile=(64, 64), ref=part, label=f"weight.{e}")
            y = weight.flatten(0, 1).flatten(0, 1)
            name = f"expert.{e}"
            done.append(st.map(st.fn.matmul, part, y, compute_bw=compute * 16, label=name))
        out = st.reassemble(done, table.multihot(label="collect"), label="combine")
        st.linear_store(out, "out", label="store")
    return program


def latency_and_compute(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """Loads of single requests beside an activation that works as long as they wait."""
    with st.Program(
        "both", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        rows = st.spec(256, 32, name="a")
        st.linear_load(rows, tile=(1, 32), label="rows").consume()
        _activated(58, compute)
    return program


def dispatch_and_compute(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """A load that issues 128 requests one by one beside an activation that works as long."""
    with st.Program(
        "issue", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        st.linear_load(st.spec(64 * 32, 64, name="a"), tile=(64, 64), label="blocks").consume()
        _activated(54, compute)
    return program


def dispatch_and_onchip(par_dispatch: int, fifo_depth: int, compute: int) -> st.Program:
    """The same load beside a product whose operands come from on-chip memory as long."""
    with st.Program(
        "operands", compute_bw=compute * _FAST, par_dispatch=par_dispatch, fifo_depth=fifo_depth
    ) as program:
        st.linear_load(st.spec(64 * 32, 64, name="a"), tile=(64, 64), label="blocks").consume()
        x = st.linear_load(st.spec(64, 64, name="x"), tile=(64, 64), label="x").flatten(0, 1)
        y = st.linear_load(st.spec(64, 64, name="y"), tile=(64, 64), label="y").flatten(0, 1)
        st.map(st.fn.matmul, x.repeat(18), y.repeat(18), label="product").consume()
    return program


def _activated(rows: int, compute: int) -> None:
    x = st.linear_load(st.spec(rows, 64, name="b"), tile=(1, 64), label="x").flatten(0, 1)
    x.map(st.fn.silu, compute_bw=compute * 6, label="act").consume()


def _tiles(name: str) -> st.Stream:
    load = st.spec(64 * 16, 64, name=name)
    return st.linear_load(load, tile=(64, 64), label=f"load_{name}").flatten(0, 1)


def _kinds(*names: str) -> frozenset[str]:
    return frozenset(names)


_WIDE = Made({"par_dispatch": 16})
_NARROW = Made({"par_dispatch": 16}, {"onchip.bytes_per_cycle": 16})

LEVERS = (
    Lever("dispatch of the weights of three layers", three_linears, _kinds("hbm_port")),
    Lever("dispatch of a store", stores, _kinds("hbm_port")),
    Lever("on-chip bandwidth", products, _kinds("onchip_bandwidth"), given=_NARROW),
    Lever("off-chip bandwidth", wide_loads, _kinds("hbm_bandwidth"), given=_WIDE),
    Lever("compute of all operators", turns, _kinds("compute"), given=_WIDE),
    Lever("depth of all FIFOs", rejoined, _kinds("fifo_depth"), given=_WIDE),
    Lever(
        "balance of experts", experts, _kinds("balance"),
        own={"balance": Made({"indices": _EVEN})},
        given=Made({"par_dispatch": 16, "fifo_depth": 64}),
    ),
    Lever("latency and compute", latency_and_compute, _kinds("hbm_latency", "compute")),
    Lever("dispatch and compute", dispatch_and_compute, _kinds("hbm_port", "compute")),
    Lever("dispatch and on-chip bandwidth", dispatch_and_onchip,
          _kinds("hbm_port", "onchip_bandwidth")),
)  # fmt: skip
