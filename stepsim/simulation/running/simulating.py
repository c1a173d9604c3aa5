"""``simulate``: from a program, or from a unit network, to a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stepsim.arguments import moved
from stepsim.graph import Program
from stepsim.lowering import Network, build_image
from stepsim.machine import Machine
from stepsim.results import Result
from stepsim.simulation.running.changes import depth_of, with_named_depths, with_places
from stepsim.simulation.running.heartbeat import heartbeat
from stepsim.simulation.running.image_run import run_image
from stepsim.simulation.running.limits import Limits, Progress
from stepsim.simulation.running.prepared import FifoDepth
from stepsim.simulation.running.preparing import kept_prepared
from stepsim.simulation.running.provenance import provenance_of

__all__ = ["simulate", "simulate_network"]

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
        file of such; what it does not name keeps its depth.
    limits : when to give up; the result then has status "limit".
    progress : called a few times per second while the simulation runs.
    seed : recorded in the provenance, for inputs that were made from it.
    record : note what happened when: occupancy of FIFOs and buffers, and
        :meth:`Result.timeline <stepsim.Result.timeline>`. All tokens of the run are kept in memory.
    addresses : where tensors lie off chip, by name of a tensor or of an operator that moves it: a
        base in bytes, a layout (``row_major``, ``tiled``, ``stream``), or a mapping with ``base``
        and ``layout``. For machines with ``hbm.model`` ``dram``; what is not said follows from
        ``hbm.addresses`` of the machine.
    regions : dies or regions by operator, as :meth:`Prepared.changed` takes them: what is placed in
        one must fit its share of the machine.

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
    prepared = kept_prepared(program, machine, depth)
    if addresses is not None:
        prepared = with_places(prepared, addresses)
    if named is not None:
        prepared = with_named_depths(prepared, named)
    if regions is not None:
        prepared = prepared.changed(regions=regions)
    return prepared.result(bindings, limits=limits, progress=progress, seed=seed, record=record)


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
