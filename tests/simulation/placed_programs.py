"""Random programs at random places of a small mesh, drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as hs

import stepsim as st
from stepsim.graph import Program
from stepsim.machine import Machine
from stepsim.noc import Placement, placed_operators
from tests.simulation.drawn_programs import drawn_programs

__all__ = ["placed_programs"]


@hs.composite
def placed_programs(draw: hs.DrawFn) -> tuple[Program, Machine, Placement]:
    """A program, a machine with a network on chip, and places of its operators and ports."""
    program = draw(drawn_programs())
    rows, cols = draw(hs.integers(1, 3)), draw(hs.integers(1, 3))
    flits = {
        "flits.flit_bytes": draw(hs.sampled_from([1, 8, 32])),
        "flits.router": draw(hs.integers(0, 4)),
        "flits.quantum": draw(hs.integers(1, 4)),
    }
    broadcast = draw(hs.sampled_from(["routes", "tree"]))
    changes = {"rows": rows, "cols": cols, "broadcast": broadcast, **flits}
    network = st.noc.load_network("mesh", changes)
    machine = st.load_machine("sda-1024", {"noc": network.to_dict()})
    place = hs.integers(0, rows * cols - 1)
    known = placed_operators(program)
    operators = {name: draw(place) for name in known}
    ports = {name: draw(place) for name, offchip in known.items() if offchip}
    placement = Placement(program, network, operators, ports, per_tile=max(1, len(known)))
    return program, machine, placement
