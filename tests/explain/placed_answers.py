"""Placed programs made so that it is known what bounds them and what helps most.

Loads of 1,024 bytes a cycle feed links of 32 bytes a cycle, so that the time on the network is that
of the busiest link. They were written before explanations knew of networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import stepsim as st

__all__ = ["PLACED_ANSWERS", "PlacedAnswer"]

_FAST = 1 << 20
"""FLOPs per cycle of operators that are to take no time."""


@dataclass(frozen=True)
class PlacedAnswer:
    """A placed program, what bounds it, and the change that is to be named first.

    Attributes
    ----------
    build : the program.
    cols : of the network, a mesh of one row.
    places, ports : of operators by label, and of their memory ports.
    kind : of the verdict; its sentence names the `link` and the `streams` that share it.
    change : kind of the first suggestion.
    flits, moved, moved_ports : of the network, and places, with the change made.
    """

    name: str
    build: Callable[[], st.Program]
    cols: int
    places: Mapping[str, int]
    ports: Mapping[str, int]
    kind: str
    link: str
    streams: tuple[str, ...]
    change: str
    flits: Mapping[str, Any] = field(default_factory=dict)
    moved: Mapping[str, int] = field(default_factory=dict)
    moved_ports: Mapping[str, int] = field(default_factory=dict)

    def before(self) -> tuple[st.Program, st.Machine, st.noc.Placement]:
        """The program, its machine and its places."""
        return self._made({}, {}, {})

    def after(self) -> tuple[st.Program, st.Machine, st.noc.Placement]:
        """The same with the first change made."""
        return self._made(self.flits, self.moved, self.moved_ports)

    def _made(
        self, flits: Mapping[str, Any], moved: Mapping[str, int], ports: Mapping[str, int]
    ) -> tuple[st.Program, st.Machine, st.noc.Placement]:
        program = self.build()
        network = st.noc.load_network("mesh", {"rows": 1, "cols": self.cols, **flits})
        machine = st.load_machine("sda-1024", {"noc": network.to_dict()})
        names = {name.partition("#")[0]: name for name in st.noc.placed_operators(program)}
        places, at = ({**one, **other} for one, other in (
            (self.places, moved), (self.ports, ports)))  # fmt: skip
        placement = st.noc.Placement(
            program, network, {names[label]: place for label, place in places.items()},
            {names[label]: place for label, place in at.items()},
        )  # fmt: skip
        return program, machine, placement


def _stream(name: str, rows: int = 1024) -> None:
    x = st.linear_load(st.spec(rows, 64), tile=(64, 64), label=f"{name}_load")
    x.flatten(0, 1, label=f"{name}_flat").map(st.fn.silu, label=f"{name}_silu").consume(
        label=f"{name}_end"
    )


def one_stream() -> st.Program:
    """A stream of 4,096 flits from tile to tile: every placement sends it over some link."""
    with st.Program("one_stream", compute_bw=_FAST, par_dispatch=16) as program:
        _stream("a")
    return program


def two_streams() -> st.Program:
    """Two such streams, which share links unless each stays in its half of the row."""
    with st.Program("two_streams", compute_bw=_FAST, par_dispatch=16) as program:
        _stream("a")
        _stream("b")
    return program


def two_ends() -> st.Program:
    """Two such streams that each have an operator at either end, and nothing between."""
    with st.Program("two_ends", compute_bw=_FAST, par_dispatch=16) as program:
        for name in "ab":
            x = st.linear_load(st.spec(1024, 64), tile=(64, 64), label=f"{name}_load")
            x.consume(label=f"{name}_end")
    return program


PLACED_ANSWERS = [
    PlacedAnswer(
        "one_stream", one_stream, 4,
        {"a_load": 0, "a_flat": 1, "a_silu": 2, "a_end": 3}, {"a_load": 0},
        "link", "0 east", ("a_load#0",), "link", flits={"flits.flit_bytes": 64},
    ),
    PlacedAnswer(
        "two_streams", two_streams, 8,
        {"a_load": 0, "b_load": 1, "a_flat": 2, "b_flat": 3, "a_silu": 4, "b_silu": 5, "a_end": 6,
         "b_end": 7},
        {"a_load": 0, "b_load": 0},
        "place", "0 east", ("a_load#0", "b_load#4"), "place",
        moved={"a_load": 0, "a_flat": 1, "a_silu": 2, "a_end": 3, "b_load": 7, "b_flat": 6,
               "b_silu": 5, "b_end": 4},
        moved_ports={"b_load": 7},
    ),
    PlacedAnswer(
        "two_ends", two_ends, 4,
        {"a_load": 0, "b_load": 1, "a_end": 2, "b_end": 3}, {"a_load": 0, "b_load": 1},
        "link", "1 east", ("a_load#0", "b_load#2"), "place",
        moved={"a_end": 1, "b_end": 2, "b_load": 3},
        moved_ports={"b_load": 3},
    ),
]  # fmt: skip
