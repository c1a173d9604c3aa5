"""Change the timing of a laid-out image without laying it out again.

The numbers of a machine are in few places of an image: the globals, the table of the memory model,
and the store of the initial states of reductions. A compute bandwidth is one parameter of its unit,
and the number of requests that a memory port issues per cycle is in the record of the port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import BOUNDED, KINDS, POSITIONS, table_places
from stepsim.lowering.image import Image
from stepsim.lowering.network import TimingParams
from stepsim.lowering.of_machine import machine_globals, memory_table

_BANDWIDTH: Final = "compute_bandwidth"
_STORE: Final = "initial_store"


def with_timing(image: Image, timing: TimingParams) -> Image:
    """The image of the same network with the timing of another machine.

    The rules of the operators, ``timing.model``, must be those of the layout, as they decide which
    parameters units have. So must the DRAM, for which the tensors were placed.
    """
    bundles = [int(bundle) for bundle in image.ports["bundle"]]
    table = memory_table(timing, bundles, image.accesses, image.ports_of_chips)
    # Including the padding between fields, which numpy need not copy.
    values = np.frombuffer(bytearray(image.globals.tobytes()), image.globals.dtype)
    machine_globals(values, timing, table)
    params = image.params
    if timing.onchip_bytes_per_cycle != int(image.globals["onchip"][0]):
        params = _with_stores(image, timing.onchip_bytes_per_cycle)
    return replace(
        image,
        params=params,
        memory_table=table.words,
        globals=values,
        memory_model=timing.engine_model,
    )


def _with_stores(image: Image, onchip: int) -> NDArray[np.int64]:
    """Parameters with the time to store the initial states at ``onchip`` bytes per cycle."""
    params = image.params.copy()
    for code, kind in enumerate(KINDS):
        if _STORE not in kind.parameters:
            continue
        units = image.units[image.units["kind"] == code]
        at_states, at_tiles, at_store = map(kind.place, ("states", "tiles", _STORE))
        for par in units["par"].tolist():
            states = int(params[par + at_states])
            # The initial states lie after the tiles that the unit makes.
            first = int(params[par + at_tiles]) + states
            tiles = image.slots[first : first + states]
            size = -(-tiles["rows"].astype(np.int64) * tiles["cols"] * tiles["bits"] // 8)
            params[par + at_store] = int((-(-size // onchip)).sum())
    return params


def compute_places(image: Image) -> dict[int, int]:
    """Index of the compute bandwidth in the parameters, by the number of each unit that has one.

    A unit whose function has no FLOPs may have a bandwidth of 0.
    """
    found: dict[int, int] = {}
    for code, kind in enumerate(KINDS):
        if _BANDWIDTH in kind.parameters:
            units = np.flatnonzero(image.units["kind"] == code)
            places = image.units["par"][units] + kind.place(_BANDWIDTH)
            found.update(zip(units.tolist(), places.tolist(), strict=True))
    return found


def compute_bandwidths(image: Image) -> dict[int, int]:
    """FLOPs per cycle by the numbers of units that have a compute bandwidth."""
    return {unit: int(image.params[at]) for unit, at in compute_places(image).items()}


def with_compute(image: Image, bandwidths: Mapping[int, int]) -> Image:
    """The image with other compute bandwidths, in FLOPs per cycle by the number of the unit."""
    params, places = image.params.copy(), compute_places(image)
    for unit, bandwidth in bandwidths.items():
        params[places[unit]] = bandwidth
    return replace(image, params=params)


def dispatch_widths(image: Image) -> dict[int, int]:
    """Requests issued per cycle by the numbers of units that have a memory port."""
    units = np.flatnonzero(image.units["port"] >= 0)
    widths = image.ports["bundle"][image.units["port"][units]]
    return dict(zip(units.tolist(), widths.tolist(), strict=True))


def with_dispatch(image: Image, timing: TimingParams, widths: Mapping[int, int]) -> Image:
    """The image with other numbers of requests issued per cycle, by the number of the unit."""
    ports = np.frombuffer(bytearray(image.ports.tobytes()), image.ports.dtype)
    for unit, width in widths.items():
        ports["bundle"][image.units["port"][unit]] = width
    return with_timing(replace(image, ports=ports), timing)


def with_first_channels(image: Image, changes: Sequence[int]) -> Image:
    """The image with the first channel of every port moved on, for the memory model interleaved."""
    words = image.memory_table.copy()
    # The table of a memory begins with the position of every port, see `kernels.memory`.
    head = POSITIONS if image.memory_model == BOUNDED.name else 0
    counts = image.ports_of_chips or (len(image.ports),)
    begins = table_places(words, image.chips) if image.chips else [0]
    places = np.concatenate(
        [begin + head + np.arange(count) for begin, count in zip(begins, counts, strict=True)]
    )
    channels = int(image.globals["memory_channels"][0])
    words[places] = (words[places] + np.array(changes, np.int64)) % channels
    return replace(image, memory_table=words)


def with_bases(image: Image, timing: TimingParams, bases: Mapping[str, int]) -> Image:
    """The image with other first bytes of tensors, by the name of the unit that moves them."""
    accesses = list(image.accesses)
    for name, base in bases.items():
        port = int(image.units["port"][image.unit_names.index(name)])
        accesses[port] = accesses[port]._replace(base=base)
    return with_timing(replace(image, accesses=tuple(accesses)), timing)
