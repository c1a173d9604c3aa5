"""``simulate``: the way from a program to a result."""

from __future__ import annotations

import functools
import hashlib
import platform
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import llvmlite
import numba
import numpy as np

from stepsim._version import MODEL_VERSION, __version__
from stepsim.errors import StepSimError
from stepsim.graph import Program
from stepsim.kernels.driver import Execution, execute
from stepsim.kernels.jit import is_compiled
from stepsim.kernels.layout import INFINITY
from stepsim.lowering import ChannelSpec, Network, UnitSpec, build_image, lower
from stepsim.machine import Machine, load_machine
from stepsim.results import Diagnosis, Result
from stepsim.simulation.assumptions import channels_to_keep, check_assumptions
from stepsim.simulation.collect import channel_table, unit_table
from stepsim.simulation.diagnose import diagnose
from stepsim.simulation.limits import Limits, Progress
from stepsim.simulation.totals import totals_of

__all__ = ["ensure_compiled", "simulate", "simulate_network", "warm_up"]


def simulate(
    program: Program,
    *,
    machine: Machine | str = "sda-1024",
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
    seed: int | None = None,
) -> Result:
    """Simulate a finished program on a machine.

    Parameters
    ----------
    program : closed ``with`` block of operators.
    machine : a :class:`~stepsim.machine.Machine`, or the name or file of one.
    bindings : index arrays ``[tokens, k]`` for routings that were built from a shape only.
    fifo_depth : capacity in tokens of every channel that does not state its own; overrides the
        program's default.
    limits : when to give up; the result then has status "limit".
    progress : called a few times per second while the simulation runs.
    seed : recorded in the provenance, for inputs that were made from it.

    Returns
    -------
    Result
        Never raises for a deadlock, a failed unit or an assumption (``assume_equal``,
        ``assume_shape``) that the run contradicts: look at ``status`` and ``diagnosis``.

    Raises
    ------
    LoweringError
        A binding is missing or a size does not fit.
    MachineError
        The machine is unknown or invalid.
    """
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    wiring, network = lower(program, target, bindings, fifo_depth)
    sources = [unit.source for unit in wiring.units]
    provenance = {
        "program_hash": program.fingerprint(),
        "bindings": _binding_digests(program, bindings),
        "fifo_depth": fifo_depth or program.fifo_depth or target.fifo_depth,
        "seed": seed,
    }
    beat = None
    if progress is not None:
        beat = _heartbeat(progress, lambda: _expected_traffic(program, bindings))
    check, keep = None, frozenset[int]()
    if program.assumptions:
        check = functools.partial(check_assumptions, wiring, bindings=bindings)
        keep = channels_to_keep(wiring)
    return _run(
        network, program.name, target, limits, beat, provenance, sources.__getitem__, check, keep
    )


def simulate_network(
    network: Network,
    *,
    name: str = "network",
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Simulate a unit network directly; its own timing parameters are the machine."""
    beat = None if progress is None else _heartbeat(progress, lambda: None)
    return _run(network, name, None, limits, beat, {}, lambda unit: "")


def _run(
    network: Network,
    name: str,
    machine: Machine | None,
    limits: Limits | None,
    on_pause: Callable[[Any, Any, float], None] | None,
    provenance: Mapping[str, Any],
    source: Callable[[int], str],
    check: Callable[[Execution], StepSimError | None] | None = None,
    keep: Collection[int] = (),
) -> Result:
    """Run a network; ``check`` may object to an execution that went well, by the tokens of the
    channels that it asks to ``keep``."""
    image = build_image(network)
    bounds = limits or Limits()
    execution = execute(
        image,
        max_cycles=bounds.max_cycles or INFINITY,
        max_steps=bounds.max_steps or INFINITY,
        max_wall_seconds=bounds.max_wall_seconds or float("inf"),
        on_pause=on_pause,
        history=keep or False,
    )
    totals = totals_of(execution, network.timing)
    status, diagnosis = totals.status, None
    if status != "ok":
        diagnosis = diagnose(image, execution, status, totals.limit, source)
    elif check is not None and (objection := check(execution)) is not None:
        status = "failed"
        diagnosis = Diagnosis(status, str(objection))
    return Result(
        program=name,
        status=status,
        cycles=totals.cycles,
        traffic_bytes=totals.traffic_bytes,
        bus_bytes=totals.bus_bytes,
        memory_requests=totals.memory_requests,
        flops=totals.flops,
        tokens=totals.tokens,
        undelivered_tokens=int((execution.channels["sent"] - execution.channels["removed"]).sum()),
        engine_steps=totals.engine_steps,
        wall_seconds=totals.wall_seconds,
        units=unit_table(image, execution, totals.cycles),
        channels=channel_table(image, execution),
        peak_bandwidth=totals.peak_bandwidth,
        provenance={
            **provenance,
            "image_hash": image.digest(),
            "machine": None if machine is None else machine.to_dict(),
            "model_version": MODEL_VERSION,
            "versions": {
                "stepsim": __version__,
                "python": platform.python_version(),
                "numba": numba.__version__,
                "llvmlite": llvmlite.__version__,
                "numpy": np.__version__,
            },
        },
        diagnosis=diagnosis,
    )


def _heartbeat(
    progress: Callable[[Progress], None], expected: Callable[[], int | None]
) -> Callable[[Any, Any, float], None]:
    """Turn the engine's counters into a Progress; the off-chip traffic to come is the yardstick."""
    total: list[int | None] = []

    def beat(g: Any, units: Any, seconds: float) -> None:
        if not total:
            total.append(expected())
        steps = int(g.steps)
        fraction = eta = None
        if total[0]:
            fraction = min(int(units["traffic"].sum()) / total[0], 1.0)
            if fraction > 0:
                eta = seconds * (1 - fraction) / fraction
        progress(Progress(int(g.now), steps, steps / max(seconds, 1e-9), fraction, eta))

    return beat


def _binding_digests(program: Program, bindings: Mapping[Any, Any] | None) -> dict[str, str]:
    """SHA-256 of the index table of every routing."""
    digests = {}
    for table in program.routings:
        indices = np.ascontiguousarray((bindings or {}).get(table, table.indices), np.int64)
        shape = repr(indices.shape).encode()
        digests[table.name] = hashlib.sha256(shape + indices.tobytes()).hexdigest()
    return digests


def _expected_traffic(program: Program, bindings: Mapping[Any, Any] | None) -> int | None:
    """Bytes that the whole run will move off chip; None when the graph does not tell."""
    known = {table: table.indices for table in program.routings if table.indices is not None}
    try:
        bound = program.metrics(memory="paper").bind({**known, **(bindings or {})})
        return int(bound.off_chip_traffic)
    except (StepSimError, TypeError):
        return None


def ensure_compiled() -> None:
    """Compile the engine unless it is on disk, so that other processes need only load it."""
    if not is_compiled():
        warm_up()


def warm_up() -> float:
    """Compile the engine or load it from the cache; seconds that a first tiny run took."""
    network = Network(
        units=(
            UnitSpec(
                "load", "OffChipLoad", (), (0,), {"tile": [1, 1], "view": [1], "par": 1, "bpe": 2}
            ),
            UnitSpec("store", "OffChipStore", (0,), (), {"tile": [1, 1], "par": 1}),
        ),
        channels=(ChannelSpec("tiles", 2),),
    )
    image = build_image(network)
    begin = time.perf_counter()
    execute(image)
    return time.perf_counter() - begin
