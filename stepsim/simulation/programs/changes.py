"""A changed `Prepared` of the same wiring: other FIFO depths, compute bandwidths or machine.

The laid-out image is edited, which takes a fraction of the time of a run where laying it out again
takes several runs. What comes out is the image of the program that was built with the changed
numbers, to the byte.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import AUTO_DEPTH, is_number, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError, did_you_mean
from stepsim.graph import (
    COMPUTE_BW,
    FIFO_DEPTH,
    PAR_DISPATCH,
    Compute,
    MetadataSource,
    Wiring,
    named_now,
)
from stepsim.lowering import (
    Image,
    Place,
    TimingParams,
    checked_places,
    compute_bandwidths,
    default_depth,
    dispatch_widths,
    rings,
    timing_of,
    with_compute,
    with_dispatch,
    with_integers,
    with_timing,
)
from stepsim.machine import Machine, Port, load_machine
from stepsim.simulation.programs.fix_file import read_depths
from stepsim.simulation.programs.on_chip import described_place, placement_of
from stepsim.simulation.programs.several_chips import chips_of

if TYPE_CHECKING:
    from stepsim import noc
    from stepsim.simulation.outcome import fit
    from stepsim.simulation.programs import on_chip
    from stepsim.simulation.programs.prepared import Prepared
else:
    fit = deferred("stepsim.simulation.outcome.fit")


def changes_of(prepared: Prepared) -> dict[str, Any]:
    """The changes by name, for provenance, which has the rest already."""
    changes: dict[str, Mapping[str, Any]] = {
        "fifo_depths": prepared.fifo_depths,
        "compute_bw": prepared.compute_bw,
        "par_dispatch": prepared.par_dispatch,
        "regions": prepared.regions,
    }
    found: dict[str, Any] = {name: dict(values) for name, values in changes.items() if values}
    if prepared.placement is not None:
        found["place"] = described_place(prepared.placement)
    if prepared.places:
        found["addresses"] = {name: place._asdict() for name, place in prepared.places.items()}
    return found


def checked_depths(wiring: Wiring, depths: object) -> dict[str, int | None]:
    """Depths by the name of a FIFO; None is an unbounded FIFO.

    Raises
    ------
    ArgError
        ``depths`` is not a mapping, names a FIFO that the program does not have, or has a value
        that is neither an int from 1 nor None.
    """
    where = f"program '{wiring.program.name}', fifo_depths"
    if not isinstance(depths, Mapping):
        raise ArgError(
            f"{where} must be a mapping from names of FIFOs to depths, found {shown(depths)}"
        )
    known = {fifo.name for fifo in wiring.fifos}
    found: dict[str, int | None] = {}
    for name, depth in named_now(where, wiring, "FIFO", depths).items():
        if name not in known:
            near = did_you_mean(name, known)
            raise ArgError(
                f"{where}: the program has no FIFO {shown(name)}{near} The names of its "
                f"{len(known)} FIFOs are in the column 'name' of Result.fifos"
            )
        what = f"{where}: the depth of '{name}'"
        found[name] = None if depth is None else FIFO_DEPTH.checked(what, depth)
    return found


def with_depths(prepared: Prepared, fifo_depths: Mapping[str, int | None]) -> Prepared:
    """The program with other depths of some FIFOs, by name; None is unbounded.

    Raises
    ------
    ArgError
        As `checked_depths`.
    """
    depths = checked_depths(prepared.wiring, fifo_depths)
    numbers = prepared.fifo_numbers
    by_number = {numbers[name]: depth for name, depth in depths.items()}
    made = _copied(prepared)
    made.fifo_depths = {**prepared.fifo_depths, **depths}
    made.template = prepared.template.edited(lambda image: rings.with_rings(image, by_number))
    return made


def depth_of(fifo_depth: object) -> tuple[Any, Any]:
    """What ``fifo_depth=`` is: the depth of all FIFOs, or depths by name or in a file.

    Raises
    ------
    ArgError
        It is the word "auto", which only the command line takes.
    """
    if isinstance(fifo_depth, str) and fifo_depth == AUTO_DEPTH:
        raise ArgError(
            "fifo_depth='auto' is for the command line; here, give fifo_depth=st.size_fifos("
            "program, machine).depths"
        )
    by_name = isinstance(fifo_depth, Mapping | str | os.PathLike)
    return (None, fifo_depth) if by_name else (fifo_depth, None)


def with_named_depths(
    prepared: Prepared, depths: Mapping[str, int | None] | str | os.PathLike[str]
) -> Prepared:
    """The program with depths by name of a FIFO, given or in a file of `read_depths`.

    Raises
    ------
    ArgError
        As `checked_depths` and `read_depths`.
    """
    if not isinstance(depths, str | os.PathLike):
        return with_depths(prepared, depths)
    read, sized_for = read_depths(depths, prepared.wiring, prepared.program_hash)
    made = with_depths(prepared, read)
    made.sized_for = sized_for
    return made


def with_regions(prepared: Prepared, regions: Mapping[str, int]) -> Prepared:
    """The program with operators placed in regions of its machine.

    Raises
    ------
    ArgError
        As `stepsim.simulation.outcome.fit.checked_regions`.
    """
    placed = fit.checked_regions(prepared, regions)
    made = _copied(prepared)
    made.regions = {**prepared.regions, **placed}
    return made


def with_metadata(prepared: Prepared, values: Mapping[str, NDArray[np.int64]]) -> Prepared:
    """The program whose ``st.metadata`` of these labels sends other integers.

    Only totals of its runs are those of a program that was built with these integers, and only if
    neither addresses of tensors nor the fit of the program depend on what else is built from them.
    """
    by_number = {}
    for number, unit in enumerate(prepared.wiring.units):
        if isinstance(unit.operator, MetadataSource) and unit.operator.label is not None:
            new = values.get(unit.operator.label)
            if new is not None:
                by_number[number] = new
    return with_image(prepared, lambda image: with_integers(image, by_number))


def with_image(prepared: Prepared, edit: Callable[[Image], Image]) -> Prepared:
    """The program with another image of the same units and FIFOs."""
    made = _copied(prepared)
    made.template = prepared.template.edited(edit)
    return made


def _copied(prepared: Prepared) -> Prepared:
    """A copy to change, without cached values that depend on the machine and bandwidths."""
    made = copy.copy(prepared)
    for name in ("energy", "fit"):
        vars(made).pop(name, None)
    return made


def with_depth(prepared: Prepared, fifo_depth: int) -> Prepared:
    """The program with this depth for FIFOs that do not state their own.

    Raises
    ------
    ArgError
        ``fifo_depth`` is not an int from 1.
    """
    return _with_default(prepared, *default_depth(prepared.program, prepared.machine, fifo_depth))


def _with_default(prepared: Prepared, depth: int, origin: str) -> Prepared:
    made = _copied(prepared)
    made.fifo_depth, made.fifo_depth_from = depth, origin
    if depth != prepared.fifo_depth:
        own = prepared.fifo_depths
        by_number = {
            number: depth
            for number, fifo in enumerate(prepared.wiring.fifos)
            if not fifo.depth and fifo.name not in own
        }
        made.template = prepared.template.edited(lambda image: rings.with_rings(image, by_number))
    return made


def with_machine(prepared: Prepared, machine: Machine | str) -> Prepared:
    """The program on another machine, with all other changes that were made to it.

    Raises
    ------
    MachineError
        The machine is unknown or invalid.
    ArgError
        The program is placed, and the machine has another network on chip, or the machine does not
        have the chips that the program is on.
    """
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    given = prepared.fifo_depth if prepared.fifo_depth_from == "call" else None
    placement = prepared.placement
    if placement is not None:
        placement = placement_of(prepared.program, target, placement)
    timing = timing_of(target)
    places = None if timing.dram is None else prepared.places
    if prepared.crossing is not None:
        return _laid_out_anew(prepared, target, given, None)
    if timing.model != prepared.timing.model or not _keeps_addresses(prepared, timing, target):
        return _laid_out_anew(prepared, target, given, places, placement)
    if placement != prepared.placement:
        return _laid_out_anew(prepared, target, given, places, placement)
    if _unit_bandwidth(target) != _unit_bandwidth(prepared.machine):
        return _laid_out_anew(prepared, target, given, places, placement)
    chips_of(prepared.wiring, target)
    made = _with_default(prepared, *default_depth(prepared.program, target, given))
    made.machine, made.timing, made.machine_values = target, timing, {}
    made.template = made.template.edited(lambda image: with_timing(image, timing))
    return made


def _keeps_addresses(prepared: Prepared, timing: TimingParams, target: Machine) -> bool:
    """Whether accesses go to the same places, and the same ones are issued ahead."""
    if timing.dram is None and prepared.timing.dram is None:
        return True
    # All but what the way of a request takes, and whose turn it is.
    way = dict.fromkeys(("request_latency", "response_latency", "first"), 1)
    sections = []
    for hbm in (prepared.machine.hbm, target.hbm):
        port = (hbm.port or Port()).to_dict()
        sections.append({**hbm.to_dict(), "arbiter": "", "port": {**port, **way}})
    return sections[0] == sections[1]


def with_places(prepared: Prepared, addresses: Mapping[str, Any]) -> Prepared:
    """The program with tensors at other places off chip.

    Raises
    ------
    ArgError
        As `checked_places`, there is no such tensor, or the memory of the machine has no addresses.
    LoweringError
        Tensors overlap, or do not fit.
    """
    if prepared.timing.dram is None:
        _ = prepared.address_map  # refuses
    given = prepared.fifo_depth if prepared.fifo_depth_from == "call" else None
    return _laid_out_anew(prepared, prepared.machine, given, checked_places(addresses))


def with_placement(prepared: Prepared, place: on_chip.Place) -> Prepared:
    """The program at other places of the network on chip of its machine.

    Raises
    ------
    ArgError
        As `placement_of`.
    """
    given = prepared.fifo_depth if prepared.fifo_depth_from == "call" else None
    placement = placement_of(prepared.program, prepared.machine, place)
    return _laid_out_anew(prepared, prepared.machine, given, prepared.places, placement)


def _unit_bandwidth(machine: Machine) -> int | None:
    return None if machine.compute is None else machine.compute.unit_flops_per_cycle


def _laid_out_anew(
    prepared: Prepared, machine: Machine, fifo_depth: int | None,
    places: Mapping[str, Place] | None, placement: noc.Placement | None = None,
) -> Prepared:  # fmt: skip
    """The program on a machine by whose rules units have other parameters, or tensors places.

    Its operators keep their places unless others are given.
    """
    made = type(prepared)(
        prepared.program, machine, fifo_depth, prepared.wiring, places,
        placement or prepared.placement,
    )  # fmt: skip
    made.sized_for, made.regions = prepared.sized_for, prepared.regions
    made.sizes = prepared.sizes
    if machine is prepared.machine:
        made.machine_values = prepared.machine_values
    made = with_depths(made, prepared.fifo_depths) if prepared.fifo_depths else made
    made = with_bandwidths(made, prepared.compute_bw) if prepared.compute_bw else made
    return with_widths(made, prepared.par_dispatch) if prepared.par_dispatch else made


def scaled_compute(prepared: Prepared, compute: Mapping[str, float]) -> Prepared:
    """The program with other compute bandwidths: factors by the name of the operator.

    Raises
    ------
    ArgError
        There is no such operator, it has no FLOPs, or a factor is not positive.
    """
    if not isinstance(compute, Mapping):
        raise ArgError(
            f"{_where(prepared)} compute must be a mapping of factors by operator, such as "
            f"{{'matmul#3': 2}}, found {shown(compute)}"
        )
    numbers = {unit.name: number for number, unit in enumerate(prepared.wiring.units)}
    present = compute_bandwidths(prepared.template.first)
    wanted = {}
    compute = named_now(f"{_where(prepared)} compute", prepared.wiring, "operator", compute)
    for name, factor in compute.items():
        number = _computing(prepared, numbers, name)
        wanted[name] = _scaled(f"{_where(prepared)} compute[{name!r}]", present[number], factor)
    return with_bandwidths(prepared, wanted)


def _scaled(what: str, bandwidth: int, factor: Any) -> int:
    """The FLOPs per cycle times a factor, in the range of an operator's ``compute_bw``."""
    if not (is_number(factor) and factor > 0):
        raise ArgError(
            f"{what} must be a positive number, by which the FLOPs per cycle are multiplied, found "
            f"{shown(factor)}; math.inf removes the limit"
        )
    most = COMPUTE_BW.high
    # math.inf x bandwidth cannot be rounded; what lies beyond the range has no effect.
    product = min(float(factor) * bandwidth, float(most))
    return most if product >= most else max(1, math.floor(product))


def _computing(prepared: Prepared, numbers: Mapping[str, int], name: Any) -> int:
    """Number of the unit of an operator that a compute bandwidth slows down."""
    number = _number_of(f"{_where(prepared)} compute", numbers, name)
    operator = prepared.wiring.units[number].operator
    if not isinstance(operator, Compute) or not operator.has_flops():
        raise ArgError(
            f"{_where(prepared)} compute names '{name}', which has no FLOPs, so that its compute "
            "bandwidth has no effect; leave it out"
        )
    return number


def with_bandwidths(prepared: Prepared, bandwidths: Mapping[str, int]) -> Prepared:
    """The program with these FLOPs per cycle, by operator.

    Raises
    ------
    ArgError
        There is no such operator, or it has no FLOPs.
    """
    numbers = {unit.name: number for number, unit in enumerate(prepared.wiring.units)}
    wanted = {_computing(prepared, numbers, name): each for name, each in bandwidths.items()}
    made = _copied(prepared)
    made.compute_bw = {**prepared.compute_bw, **bandwidths}
    made.template = prepared.template.edited(lambda image: with_compute(image, wanted))
    return made


def with_widths(prepared: Prepared, par_dispatch: Mapping[str, int]) -> Prepared:
    """The program with other numbers of requests issued per cycle, by the name of the operator.

    Raises
    ------
    ArgError
        There is no such operator, it has no memory port, or a number is out of range.
    """
    where = f"{_where(prepared)} par_dispatch"
    if not isinstance(par_dispatch, Mapping):
        raise ArgError(
            f"{where} must be a mapping of requests per cycle by operator, such as "
            f"{{'linear_load#0': 8}}, found {shown(par_dispatch)}"
        )
    numbers = {unit.name: number for number, unit in enumerate(prepared.wiring.units)}
    ports = dispatch_widths(prepared.template.first)
    wanted = {}
    par_dispatch = named_now(where, prepared.wiring, "operator", par_dispatch)
    for name, width in par_dispatch.items():
        number = _number_of(where, numbers, name)
        if number not in ports:
            raise ArgError(
                f"{where} names '{name}', which issues no requests to the memory, so that it has "
                "no effect; leave it out"
            )
        wanted[number] = PAR_DISPATCH.checked(f"{where}[{name!r}]", width)
    made, timing = _copied(prepared), prepared.timing
    made.par_dispatch = {**prepared.par_dispatch, **par_dispatch}
    made.template = prepared.template.edited(lambda image: with_dispatch(image, timing, wanted))
    return made


def _number_of(where: str, numbers: Mapping[str, int], name: Any) -> int:
    """Number of the unit of an operator."""
    number = numbers.get(name) if isinstance(name, str) else None
    if number is None:
        near = did_you_mean(name, numbers)
        raise ArgError(
            f"{where} names {shown(name)}, which is not an operator{near} Names are those of "
            "Result.units"
        )
    return number


def _where(prepared: Prepared) -> str:
    return f"program '{prepared.program.name}':"
