"""``size_fifos``: the least FIFO bytes that keep the speed of unbounded FIFOs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.arguments import flag, shown
from stepsim.errors import ArgError
from stepsim.graph import Program, check_bindings, check_program, slot_bytes as slot_size
from stepsim.machine import Machine
from stepsim.simulation import (
    FifoDepth,
    Limits,
    Prepared,
    check_limits,
    depth_of,
    kept_prepared,
    with_named_depths,
)
from stepsim.sizing.program_runs import ProgramRuns, checked_slowdown
from stepsim.sizing.result import FifoSizes

if TYPE_CHECKING:
    from stepsim.simulation import Case
    from stepsim.workloads import Data


def size_fifos(
    program: Program | Prepared,
    machine: Machine | str | None = None,
    *,
    slowdown: float = 0.01,
    bindings: Mapping[Any, Any] | Iterable[Mapping[Any, Any]] | None = None,
    stated: bool = False,
    fifo_depth: FifoDepth = None,
    limits: Limits | None = None,
) -> FifoSizes:
    """Find the depth of every FIFO: the least total bytes that keep a program about as fast.

    A run with unbounded FIFOs shows how fast the program can be and when every token arrived. A
    linear program over the times at which units work gives initial depths (StreamTensor,
    on FIFO sizing, with effective intervals). Further runs repair and shrink them, so the returned
    depths have been run.

    Parameters
    ----------
    program : closed ``with`` block of operators; or a prepared program, which has its machine.
        FIFOs whose depth :meth:`~stepsim.simulation.Prepared.changed` has set keep it.
    machine : a :class:`~stepsim.machine.Machine`, or the name or file of one; "sda-1024" if None.
    slowdown : how much longer than with unbounded FIFOs a run may take, as a fraction.
    bindings : index arrays ``[rows, k]`` by routing; or a list of such mappings, for depths that
        are enough for all of them.
    stated : whether to also size FIFOs whose depth the program states (``with_depth``).
    fifo_depth : depths of single FIFOs to keep, by name or in a file; the others are sized.
    limits : of every run.

    Returns
    -------
    FifoSizes
        Its ``depths`` by FIFO name, including those that were kept, are accepted by
        :func:`simulate` as ``fifo_depth``.

    Raises
    ------
    ArgError
        An argument is of the wrong type or out of range; bindings do not fit.
    EvaluationError
        A run is not ok even with unbounded FIFOs; the message states the reason.
    LoweringError
        The program is still open, a size does not fit, or the tokens of a run do not fit the
        memory of this machine.
    MachineError
        The machine is unknown or invalid.

    Example
    -------
    >>> with st.Program("center", compute_bw=1024) as program:
    ...     x = st.linear_load(st.spec(64, 512), tile=(16, 64))
    ...     total = x.accum(st.fn.add, rank=1)
    ...     y = st.map(st.fn.add, x, total.unsqueeze(0).expand(8))
    ...     st.linear_store(y, "y")
    >>> st.size_fifos(program).depths["linear_load#0>1"]
    8
    """
    if isinstance(program, Prepared):
        prepared = program
        if machine is not None:
            raise ArgError(
                f"program '{prepared.program.name}', size_fifos: a prepared program has its "
                "machine already; use prepared.changed(machine=...)"
            )
    else:
        check_program("size_fifos", program)
        prepared = kept_prepared(program, machine or "sda-1024", None)
    depth, named = depth_of(fifo_depth)
    if depth is not None:
        raise ArgError(
            f"program '{prepared.program.name}', size_fifos: fifo_depth must map FIFO names to "
            f"depths to keep, or be a file of these, found {shown(depth)}; one depth for all "
            "FIFOs has no effect when they are sized"
        )
    if named is not None:
        prepared = with_named_depths(prepared, named)
    return sized(prepared, bindings, slowdown=slowdown, stated=stated, limits=limits)


def with_least_depths(case: Case, data: Data) -> Case:
    """The case with the depths of the fewest bytes for these data, as `sized` finds them."""
    found = sized(case.unsized, case.bound(data), stated=case.sizes_stated)
    return case.with_fifo_depths(found.depths)


def sized(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | Iterable[Mapping[Any, Any]] | None = None,
    *,
    slowdown: float = 0.01,
    stated: bool = False,
    limits: Limits | None = None,
) -> FifoSizes:
    """As `size_fifos`, for a prepared program; depths that were changed by name are kept."""
    where = f"program '{prepared.program.name}', size_fifos:"
    check_limits(where, limits)
    stated = flag(f"{where} stated", stated)
    slowdown = checked_slowdown(f"{where} slowdown", slowdown)
    runs = _runs(where, bindings)
    fifos = prepared.wiring.fifos
    names = tuple(
        fifo.name
        for fifo in fifos
        if fifo.name not in prepared.fifo_depths and (stated or fifo.depth is None)
    )
    if not fifos:
        raise ArgError(f"{where} the program has no FIFOs to size")
    if not names:
        raise ArgError(
            f"{where} every FIFO has a stated depth; stated=True sizes those that the program "
            "states"
        )
    unbounded = prepared.changed(fifo_depths=dict.fromkeys(names))
    indices = [check_bindings(prepared.program, one) for one in runs]
    kinds = [re.sub(r"\d+", "#", name) for name in names]
    made = ProgramRuns(
        name=prepared.program.name,
        images=[unbounded.image(one) for one in indices],
        timing=prepared.timing,
        sized=np.array([prepared.fifo_numbers[name] for name in names]),
        alike=np.array([kinds.index(kind) for kind in kinds]),
        bounds=np.array([slot_bytes(fifo.stream.type) for fifo in fifos]),
        checks=[prepared.check(one) for one in indices],
        keep=prepared.keep,
        limits=limits or Limits(),
    )
    return FifoSizes(prepared, names, made, slowdown, made.solved(slowdown))


def _runs(where: str, bindings: object) -> Sequence[Any]:
    if bindings is None or isinstance(bindings, Mapping):
        return [bindings]
    if not isinstance(bindings, Iterable) or isinstance(bindings, str | bytes):
        raise ArgError(
            f"{where} bindings must map routings to index arrays, or be a list of such mappings, "
            f"found {shown(bindings)}"
        )
    runs = list(bindings)
    if not runs:
        raise ArgError(f"{where} bindings is empty; expected at least one mapping, or None")
    return runs


def slot_bytes(element: Any) -> int:
    """Bytes of a slot for an element, where its type states them; else 0."""
    size = slot_size(element)
    return size if isinstance(size, int) else 0
