"""Variants of a program: named changes, each of which is simulated in addition to the program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.arguments import is_number, shown, text_of
from stepsim.errors import ArgError, StepSimError
from stepsim.graph import FIFO_DEPTH, PAR_DISPATCH, Bindings, check_bindings
from stepsim.machine import Machine, load_machine
from stepsim.simulation.programs.on_chip import described_place
from stepsim.simulation.running.batches import ManyRuns
from stepsim.simulation.running.limits import Limits
from stepsim.typed import typed

if TYPE_CHECKING:
    from stepsim.simulation.programs.prepared import Prepared


@dataclass(frozen=True, slots=True)
class Variant:
    """A change of a program, its machine or its data. Values that are not given stay as they are.

    Attributes
    ----------
    name : name in results; unique in a list.
    fifo_depth : tokens in FIFOs that do not state their own depth.
    fifo_depths : tokens by name of a FIFO as in ``Result.fifos``; None is unbounded.
    compute : factors of the FLOPs per cycle by name of an operator as in ``Result.units``; math.inf
        removes the limit.
    machine : another target, or the name or file of one.
    bindings : other index arrays ``[rows, k]`` by routing.
    par_dispatch : requests issued to the memory per cycle by name of a load or store.
    place : other places on the network on chip, as `simulate` takes them.

    Raises
    ------
    ArgError
        The name is not a text, or a value is of the wrong type; names of FIFOs and operators are
        checked when the variant is run.
    MachineError
        The machine is unknown or invalid.

    Example
    -------
    >>> wide = st.Variant("64 channels", machine=st.load_machine("sda-1024", {"hbm.channels": 64}))
    """

    name: str
    fifo_depth: int | None = None
    fifo_depths: Mapping[str, int | None] = field(default_factory=dict)
    compute: Mapping[str, float] = field(default_factory=dict)
    machine: Machine | str | Path | None = None
    bindings: Mapping[Any, Any] | None = None
    par_dispatch: Mapping[str, int] = field(default_factory=dict)
    place: Any = None

    def __post_init__(self) -> None:
        if not text_of("the name of a variant", self.name):
            raise ArgError("the name of a variant is empty")
        what = f"variant '{self.name}':"
        if self.fifo_depth is not None:
            FIFO_DEPTH.checked(f"{what} fifo_depth", self.fifo_depth)
        for name in ("fifo_depths", "compute", "par_dispatch", "bindings"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) and (name != "bindings" or value is not None):
                raise ArgError(f"{what} {name} must be a mapping, found {shown(value)}")
        for name, depth in self.fifo_depths.items():
            if depth is not None:
                FIFO_DEPTH.checked(f"{what} fifo_depths[{shown(name)}]", depth)
        for name, factor in self.compute.items():
            if not (is_number(factor) and factor > 0):
                raise ArgError(
                    f"{what} compute[{shown(name)}] must be a positive number, found "
                    f"{shown(factor)}; math.inf removes the limit"
                )
        for name, width in self.par_dispatch.items():
            PAR_DISPATCH.checked(f"{what} par_dispatch[{shown(name)}]", width)
        if self.machine is not None and not isinstance(self.machine, Machine):
            try:
                machine = load_machine(self.machine)
            except StepSimError as error:
                raise type(error)(f"{what} {error}") from error
            object.__setattr__(self, "machine", machine)

    @typed
    def applied(self, prepared: Prepared) -> Prepared:
        """The prepared program with the change; ``bindings`` are given to its runs.

        Raises
        ------
        ArgError
            The program has no such FIFO or operator, or a value is out of range.
        MachineError
            No run can use the machine.
        """
        machine = self.machine
        assert not isinstance(machine, str | Path)  # loaded when the variant was made
        try:
            return prepared.changed(
                machine=machine,
                fifo_depth=self.fifo_depth,
                fifo_depths=self.fifo_depths or None,
                compute=self.compute or None,
                par_dispatch=self.par_dispatch or None,
                place=self.place,
            )
        except StepSimError as error:
            raise type(error)(f"variant '{self.name}': {error}") from error

    def described(self) -> dict[str, Any]:
        """The change as plain values, for provenance, without its bindings."""
        machine = self.machine
        changes: dict[str, Any] = {
            "fifo_depth": self.fifo_depth,
            "fifo_depths": dict(self.fifo_depths),
            # JSON has no infinity.
            "compute": {
                name: "inf" if factor == math.inf else factor
                for name, factor in self.compute.items()
            },
            "par_dispatch": dict(self.par_dispatch),
            "machine": machine.to_dict() if isinstance(machine, Machine) else None,
            "place": described_place(self.place),
        }
        return {"name": self.name, **{key: value for key, value in changes.items() if value}}


def checked_variants(variants: object) -> Sequence[Variant]:
    """A list of variants of different names.

    Raises
    ------
    ArgError
        It is not a list, an entry is not a Variant, or two have the same name.
    """
    if isinstance(variants, str | bytes | Mapping) or not isinstance(variants, Iterable):
        raise ArgError(f"variants must be a list of Variant, found {shown(variants)}")
    found: list[Variant] = []
    names: dict[str, int] = {}
    for i, one in enumerate(variants):
        if not isinstance(one, Variant):
            raise ArgError(f"variants[{i}] must be a Variant, found {shown(one)}")
        if one.name in names:
            raise ArgError(
                f"variants[{i}] and variants[{names[one.name]}] are both named '{one.name}'; give "
                "each its own name"
            )
        names[one.name] = i
        found.append(one)
    if not found:
        raise ArgError("variants is empty; expected at least one")
    return found


def variant_runs(
    prepared: Prepared,
    variant: Variant,
    count: int,
    indices: Bindings | None,
    limits: Limits | None,
    units: bool = False,
) -> ManyRuns:
    """The runs of a variant, one for each of many bindings.

    Parameters
    ----------
    count : number of bindings.
    indices : checked indices ``[runs, rows, k]`` of every routing; None stands for those that the
        program was built with, of one run.

    Raises
    ------
    ArgError
        The change does not fit the program, or a routing has no indices.
    MachineError
        No run can use the machine.
    """
    program, own = prepared.program, variant.bindings or {}
    first = {} if indices is None else {table: array[0] for table, array in indices.items()}
    try:
        checked = check_bindings(program, {**first, **own})
    except StepSimError as error:
        raise type(error)(f"variant '{variant.name}': {error}") from error
    found = {
        table: np.broadcast_to(array, (count, *array.shape))
        if indices is None or table in own
        else indices[table]
        for table, array in checked.items()
    }
    return ManyRuns(variant.applied(prepared), count, found, limits, units)
