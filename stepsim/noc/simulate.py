"""Traffic on a network, without a program: users' own transfers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from stepsim.arguments import Range, flag, shown
from stepsim.errors import ArgError
from stepsim.machine import Network, load_network
from stepsim.noc.models import run_bytes, run_flits, run_npe
from stepsim.noc.multicast import multicast_routes
from stepsim.noc.run import NocRun
from stepsim.noc.topology import Topology
from stepsim.noc.traffic import traffic_of

MODELS: Final = ("link", "flow", "npe")
"""Models of a network on chip."""

_STEP: Final = Range(1 << 20, "cycles of a step of the model npe")
_MEMORY: Final = Range(1 << 20, "cycles of an access to the memory behind a DRAM core", low=0)
STEP: Final = 128
"""Cycles of a step where none are given, as in tt-npe."""


def simulate(
    traffic: Any,
    network: Network | str | Path = "mesh",
    *,
    model: str = "link",
    memory_cycles: int = 0,
    step: int | None = None,
    congestion: bool = True,
) -> NocRun:
    """Send transfers over a network until all of them have arrived.

    Parameters
    ----------
    traffic : an Arrow table or a mapping of columns with a value for each transfer: ``source`` and
        ``destination`` (a place, or a pair of row and column), ``bytes`` or ``flits``; and, where
        needed, ``time`` (first cycle, 0), ``packets`` (into which the bytes are cut, 1),
        ``network`` (0), ``after`` (transfers that it waits for: None, a number or a list),
        ``delay`` (cycles after the last of them, 0), and ``last`` (a multicast goes to the
        rectangle from ``destination`` to it).
    network : name of a preset, path of a YAML file, or a :class:`stepsim.machine.Network`.
    model : ``link``: segments of flits reserve inputs and outputs of routers; on networks without
        flits whole transfers reserve their ports. ``flow``: transfers share ports, with max-min
        fair rates. ``npe``: time steps, as tt-npe computes them.
    memory_cycles : by which transfers from DRAM cores start later.
    step : cycles of a step of the model ``npe``; None: 128.
    congestion : with the model ``npe``, whether transfers slow each other down.

    Raises
    ------
    ArgError : traffic that does not fit the network or the model, an unknown model, or an option
        out of range or without effect.
    MachineError : no such network, or a description that is not valid.
    """
    described = load_network(network)
    if not isinstance(model, str) or model not in MODELS:
        raise ArgError(f"model: expected one of {', '.join(MODELS)}, found {shown(model)}")
    memory_cycles = _MEMORY.checked("memory_cycles", memory_cycles)
    congestion = flag("congestion", congestion)
    if step is not None:
        step = _STEP.checked("step", step)
    if model != "npe" and (step is not None or not congestion):
        name = "step" if step is not None else "congestion"
        raise ArgError(f"{name}: has an effect with the model npe alone, found {model}")
    topology = Topology(described)
    checked = traffic_of(traffic, topology.places, described.cols, described.networks)
    from_memory = np.array([letter == "D" for letter in described.core_letters])
    if memory_cycles and not from_memory.any():
        raise ArgError(
            f"memory_cycles: has no effect on network '{described.name}', which has no DRAM cores; "
            "leave it out, or state cores"
        )
    ready = checked.time + memory_cycles * from_memory[checked.source]
    routes = topology.routes(checked.source, checked.destination, checked.network)
    if model == "npe":
        found = run_npe(checked, topology, routes, ready, step=step or STEP, congestion=congestion)
        if (checked.last != checked.destination).any():
            routes = multicast_routes(checked, topology)
    elif model == "link" and described.flits is not None:
        found = run_flits(checked, topology, routes, ready)
    else:
        found = run_bytes(checked, topology, routes, ready, model)
    return NocRun(model, topology, checked, routes, ready, *found)
