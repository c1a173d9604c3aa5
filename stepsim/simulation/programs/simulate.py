"""``simulate`` and ``prepare``: the one path from a program to a result.

A program is prepared, gets its image, is executed, and is collected. Wiring and layout depend on
the routing only through selectors: a prepared program is wired and laid out once, and every run
fills in the selectors of its own routing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from stepsim.arguments import moved
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.graph import Program, Wiring, check_program
from stepsim.lowering import Network, build_image, default_depth
from stepsim.machine import Machine, load_machine
from stepsim.results import Result
from stepsim.simulation.programs.changes import depth_of
from stepsim.simulation.programs.on_chip import placement_of
from stepsim.simulation.programs.prepared import FifoDepth, Prepared
from stepsim.simulation.programs.provenance import provenance_of
from stepsim.simulation.running.image_run import run_image
from stepsim.simulation.running.limits import Limits
from stepsim.simulation.running.progress import Progress, heartbeat

if TYPE_CHECKING:
    from stepsim import noc
else:
    noc = deferred("stepsim.noc")

_OTHER_LEVEL: Final = "the hardware level is st.hardware.simulate(program, machine)"


@moved(level=_OTHER_LEVEL, hardware=_OTHER_LEVEL)
def simulate(
    program: Program,
    machine: Machine | str = "sda-1024",
    *,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: FifoDepth = None,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
    seed: int | None = None,
    record: bool = False,
    addresses: Mapping[str, Any] | None = None,
    regions: Mapping[str, int] | None = None,
    fix: str | PathLike[str] | None = None,
    place: noc.Placement | str | PathLike[str] | None = None,
) -> Result:
    """Simulate a finished program on a machine.

    A program is laid out for a machine once and remembers it: running it again, with other
    bindings, costs little beyond the simulation itself. :func:`prepare` does that step alone.

    Parameters
    ----------
    program : closed ``with`` block of operators.
    machine : a :class:`~stepsim.machine.Machine`, or the name or file of one.
    bindings : index arrays ``[rows, k]`` by routing, for routings that were built from a shape
        only, or in place of those that the program was built with.
    fifo_depth : capacity in tokens of every FIFO that does not state its own. Without it that of
        the machine counts (``fifo.depth``, if it states one), else that of the program, else 1024.
        Or depths of single FIFOs: a mapping by name, as :func:`size_fifos` finds them, or a YAML
        file of depths; FIFOs without an entry keep their depth.
    limits : when to give up; the result then has status "limit".
    progress : called a few times per second while the simulation runs.
    seed : recorded in the provenance, for inputs that were made from it.
    record : record events over time: occupancy of FIFOs and buffers, and
        :meth:`Result.timeline <stepsim.Result.timeline>`. All tokens of the run are kept in memory.
    addresses : places of tensors off chip, by name of a tensor or of an operator that moves it: a
        base in bytes, a layout (``row_major``, ``tiled``, ``stream``), or a mapping with ``base``
        and ``layout``. For machines with ``hbm.model`` ``dram``; values that are not given follow
        from ``hbm.addresses`` of the machine.
    regions : dies or regions by operator, as :meth:`Prepared.changed` takes them: the operators of
        a region must fit its share of the machine.
    fix : a YAML file of changes to FIFOs, operators and machine, as ``Suggestion.save``,
        ``DeadlockFix.save`` and ``stepsim why --write-fix`` write it. One of another program is
        refused before anything runs.
    place : a :class:`stepsim.noc.Placement` of the program on the network on chip of the machine,
        its YAML file, or ``"row-major"``: tokens between operators at different places then cross
        the network. Without it they take no time.

    Returns
    -------
    Result
        A deadlock, a failed unit or an assumption (``assume_equal``, ``assume_shape``) that the
        run contradicts raises nothing: look at ``status`` and ``diagnosis``.

    Raises
    ------
    ArgError
        An argument is of the wrong type or out of range; bindings are missing or do not fit the
        routings of the program; depths of FIFOs do not fit the program, or their file cannot be
        read.
    LoweringError
        The program is still open, or a size does not fit.
    MachineError
        The machine is unknown or invalid.
    """
    depth, named = depth_of(fifo_depth)
    prepared = kept_prepared(program, machine, depth, place=place).changed(
        addresses=addresses, fifo_depth=named, regions=regions, fix=fix
    )
    return prepared.result(bindings, limits=limits, progress=progress, seed=seed, record=record)


def prepare(
    program: Program,
    machine: Machine | str = "sda-1024",
    *,
    fifo_depth: FifoDepth = None,
    addresses: Mapping[str, Any] | None = None,
    fix: str | PathLike[str] | None = None,
    place: noc.Placement | str | PathLike[str] | None = None,
) -> Prepared:
    """Prepare a finished program for runs that differ only in their routing.

    Parameters
    ----------
    program, machine, fifo_depth, addresses, fix, place : as in :func:`stepsim.simulate`.

    Raises
    ------
    LoweringError
        The program is still open, a size does not fit, or tensors overlap off chip.
    ArgError
        ``program`` is not a Program, ``fifo_depth`` is neither a positive int nor depths of its
        FIFOs, or ``addresses`` do not fit the program or its machine.
    MachineError
        The machine is unknown or invalid.
    """
    check_program("prepare", program)
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    depth, named = depth_of(fifo_depth)
    placement = None if place is None else placement_of(program, target, place)
    made = Prepared(program, target, depth, placement=placement)
    return made.changed(addresses=addresses, fifo_depth=named, fix=fix)


def as_prepared(
    name: str,
    program: Program | Prepared,
    machine: Machine | str | None,
    fifo_depth: FifoDepth,
    place: noc.Placement | str | PathLike[str] | None = None,
) -> Prepared:
    """The program given to the function ``name``, prepared if it is not yet.

    Raises
    ------
    ArgError
        A prepared program is given with another machine or other depths, or as in :func:`prepare`.
    LoweringError, MachineError
                As in :func:`prepare`.
    """
    if not isinstance(program, Prepared):
        return prepare(program, machine or "sda-1024", fifo_depth=fifo_depth, place=place)
    if machine is not None or fifo_depth is not None or place is not None:
        raise ArgError(
            f"program '{program.program.name}', {name}: a prepared program has its machine, depths "
            "and places already; use prepared.changed(machine=..., fifo_depths=..., place=...)"
        )
    return program


def kept_prepared(
    program: Program,
    machine: Machine | str,
    fifo_depth: int | None,
    wiring: Wiring | None = None,
    place: noc.Placement | str | PathLike[str] | None = None,
) -> Prepared:
    """The program prepared for a machine, kept with the program for its next run.

    ``wiring`` is that of the program, where it is known.
    """
    check_program("prepare", program)
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    # Equal values may have types that are refused.
    depth, origin = default_depth(program, target, fifo_depth)
    placement = None if place is None else placement_of(program, target, place)
    name = ("prepared", target, depth, origin, placement)
    return program.kept(
        name, lambda: Prepared(program, target, fifo_depth, wiring, placement=placement)
    )


def simulate_network(
    network: Network,
    *,
    name: str = "network",
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Simulate a unit network directly; its own timing parameters are the machine."""
    done = run_image(
        build_image(network),
        network.timing,
        limits=limits,
        on_pause=heartbeat(progress, lambda: None),
    )
    return done.result(name, provenance_of(done.totals.image_hash, None, {}))
