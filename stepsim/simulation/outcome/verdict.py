"""The verdict on a run: how it ended and why, its energy, and whether the program fits the machine.

The last two are looked at only where the machine has a table of energies or states a capacity; what
does so is imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from stepsim.deferred import deferred
from stepsim.errors import StepSimError
from stepsim.graph import Bindings, Function
from stepsim.kernels import Execution
from stepsim.lowering import Image, TimingParams
from stepsim.machine import Machine
from stepsim.results import Diagnosis
from stepsim.simulation.outcome.diagnose import diagnose
from stepsim.simulation.outcome.totals import Totals, totals_of

if TYPE_CHECKING:
    from stepsim.simulation.outcome import energy, fit
    from stepsim.simulation.programs.prepared import Prepared
else:
    energy = deferred("stepsim.simulation.outcome.energy")
    fit = deferred("stepsim.simulation.outcome.fit")


def verdict(
    image: Image,
    execution: Execution,
    timing: TimingParams,
    check: Callable[[Execution], StepSimError | None] | None,
    source: Callable[[int], str],
    function: Callable[[int], Function | None],
) -> tuple[Totals, Diagnosis | None]:
    """Totals of a run, and the diagnosis if it is not ok.

    Parameters
    ----------
    check : may reject a successful execution, by the tokens that were kept.
    source : the user's line behind a unit number.
    function : its function of tiles, if it has one.
    """
    totals = totals_of(execution, timing, image)
    diagnosis = None
    if totals.status != "ok":
        diagnosis = diagnose(image, execution, totals.status, totals.limit, source, function)
    elif check is not None and (objection := check(execution)) is not None:
        diagnosis = Diagnosis("failed", str(objection))
    if diagnosis is not None:
        totals = replace(totals, status=diagnosis.status, reason=str(diagnosis))
    return totals, diagnosis


def energy_account(prepared: Prepared) -> energy.EnergyAccount | None:
    """The energy counter of runs; None if the machine has no table of energies.

    Raises
    ------
    MachineError
        The table has no entry for an element type that an operator computes with.
    """
    if prepared.machine.energy is None:
        return None

    return energy.EnergyAccount(prepared)


def _is_limited(machine: Machine) -> bool:
    """Whether a machine states a capacity that programs must fit."""
    compute = machine.compute
    stated = compute is not None and compute.flops_per_cycle is not None
    return stated or machine.onchip.capacity_bytes is not None


def fit_of(prepared: Prepared) -> fit.Fit | None:
    """The comparison of the program with its machine; None if that states no capacity."""
    if not _is_limited(prepared.machine):
        return None

    return fit.Fit(prepared)


def kept_fifos(prepared: Prepared) -> Collection[int] | Literal[True]:
    """FIFOs whose tokens runs keep, for assumptions and energy; True for everything."""
    energy = prepared.energy
    if energy is None or not energy.keep:
        return prepared.keep
    return True if energy.keep is True else prepared.keep | energy.keep


def excess_of(prepared: Prepared, indices: Bindings) -> str:
    """A sentence on the resources that the program exceeds; empty if it fits the machine."""
    over = () if prepared.fit is None else prepared.fit.excess({**prepared.sizes, **indices})
    if not over:
        return ""
    return (
        f"program '{prepared.program.name}' does not fit machine '{prepared.machine.name}': "
        + "; ".join(map(str, over))
    )


def with_accounts(
    prepared: Prepared,
    totals: Totals,
    diagnosis: Diagnosis | None,
    execution: Execution,
    indices: Bindings,
) -> tuple[Totals, Diagnosis | None]:
    """The verdict on a run with its energy.

    One that went well gets the status infeasible where the program does not fit the machine.
    """
    if prepared.energy is not None:
        units = prepared.energy.of(execution, totals.cycles)
        totals = replace(totals, energy=units.totals(), unit_energy=units)
    if diagnosis is not None or prepared.fit is None:
        return totals, diagnosis
    summary = excess_of(prepared, indices)
    if not summary:
        return totals, None
    diagnosis = Diagnosis("infeasible", summary)
    return replace(totals, status=diagnosis.status, reason=summary), diagnosis
