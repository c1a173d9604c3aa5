"""The case of a command that runs its workload: built, with all that was chosen for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import stepsim.design
import stepsim.simulation
import stepsim.sizing
from stepsim.arguments import AUTO_DEPTH
from stepsim.cli.heartbeat import LOADING_ENGINE
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.cli.heartbeat import Heartbeat
    from stepsim.cli.runs.inputs import Traces
    from stepsim.cli.runs.workload import Choice
    from stepsim.machine import Machine
    from stepsim.placement import PlaceChoice
    from stepsim.simulation import Case


class Ready(NamedTuple):
    """A case and the traces of its inputs; the engine is loaded."""

    case: Case
    traces: Traces


def ready_case(
    choice: Choice,
    heartbeat: Heartbeat,
    *,
    config: str | None,
    counting: str | None = None,
    fix: Path | None = None,
    place: PlaceChoice | None = None,
    check_machine: Callable[[Machine], object] | None = None,
    check: Callable[[Case], object] | None = None,
) -> Ready:
    """Build what was chosen, and load the engine.

    Parameters
    ----------
    choice : the workload, its inputs and its machine.
    heartbeat : learns of every step.
    config, counting : as `Choice.case` takes them; times do not depend on the counting.
    fix : a file of changes.
    place : where its operators are.
    check_machine, check : refuse a machine before anything is read, and a case before anything that
        takes long.

    Raises
    ------
    StepSimError : an input cannot be read, or what was chosen does not fit together.
    """
    heartbeat.phase("loading")
    machine = choice.load_machine(config)
    if check_machine is not None:
        check_machine(machine)
    traces = choice.read(required=True)
    heartbeat.phase("building the program")
    case = choice.case(traces, machine, config, counting)
    depths = choice.fifo_depths
    if fix is not None:
        if depths is not None:
            raise ArgError(
                f"--fix: expected without --fifo-depth {depths}, which chooses depths as well; a "
                "file of depths is a fix, too: give one of them"
            )
        case = case.with_fix(fix)
    if check is not None:
        check(case)
    heartbeat.phase(LOADING_ENGINE)
    stepsim.simulation.warm_up()
    if place is not None:
        heartbeat.phase("placing operators")
        case = stepsim.design.placed_case(place, case, traces.data)
    if depths is not None:
        heartbeat.phase("sizing FIFOs")
        if depths == AUTO_DEPTH:
            case = stepsim.sizing.with_least_depths(case, traces.data)
        else:
            case = case.with_fifo_depths(depths)
    return Ready(case, traces)
