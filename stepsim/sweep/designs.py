"""The design points of a sweep: parameters and machines resolved, and tried against the batches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stepsim.errors import ArgError, MachineError, SweepError
from stepsim.machine import Machine, load_machine, parse_overrides
from stepsim.sweep.kinds import Shape, check_point, parameter_problems, resolve_parameters
from stepsim.sweep.problems import Problems
from stepsim.sweep.spec import SweepSpec
from stepsim.sweep.traces import Trace

__all__ = ["Fit", "Point", "fit", "resolve_points"]

_LABEL_LENGTH = 80
_MACHINE = "machine."


@dataclass(frozen=True, slots=True)
class Point:
    """One design: everything but the trace.

    Attributes
    ----------
    index, label : number and short text, which names the partition of the results.
    """

    index: int
    label: str
    workload: str
    shape: Shape
    parameters: Mapping[str, Any]
    machine: Machine

    @property
    def content(self) -> list[Any]:
        """What it is however it is written: part of the keys of its runs."""
        return [self.workload, repr(self.shape), dict(self.parameters), self.machine.to_dict()]


class Fit(NamedTuple):
    """Which batches a design point can run.

    ``example`` is one of them, None if there is none. ``misfit`` says why one is not, for those it
    cannot run; empty when there are none.
    """

    example: Trace | None
    misfit: str


def resolve_points(
    spec: SweepSpec,
    shape: Shape,
    traces: Sequence[Trace],
    problems: Problems,
    *,
    shape_known: bool,
    machine_known: bool,
) -> dict[str, Point]:
    """Design points by what messages call them; what is wrong with others goes to ``problems``.

    Without the shape of the model single parameters and machines are checked only, without the
    machine the names of what is changed of it.
    """
    for problem in spec.axis_problems():
        problems.add(problem)
    designs: list[dict[str, Any]] = []
    if all(spec.grid.values()):
        with problems.collected():
            designs = spec.without_repeats().design_points()
    batches = {trace.rows for trace in traces if trace.rows is not None}
    points: dict[str, Point] = {}
    first: dict[str, str] = {}
    machines: dict[str, Machine | MachineError] = {}
    for index, design in enumerate(designs):
        one = _Design(spec, design, index, problems, machines)
        machine, sound = one.machine(known=machine_known), one.check_parameters()
        if machine is None or not sound or not shape_known:
            continue
        try:
            own = resolve_parameters(spec.workload, one.own, shape, machine, batches)
        except SweepError as error:
            problems.add_of_point(one.where, str(error))
            continue
        point = Point(index, _label(index, design), spec.workload, shape, own, machine)
        same = first.setdefault(json.dumps(point.content, sort_keys=True), one.where)
        if same != one.where:
            problems.add_of_point(
                one.where,
                f"is the same as {same} once defaults are filled in; take one of them out",
            )
        points[one.where] = point
    return points


def fit(point: Point, traces: Sequence[Trace]) -> Fit:
    """Try a design point against all batches, without building its program."""
    errors: dict[object, str] = {}
    example: Trace | None = None
    misfits: list[Trace] = []
    why = ""
    tried = 0
    for trace in traces:
        if trace.error:
            continue
        # Attention depends on every length, MoE on their number only.
        lengths = trace if point.workload == "attention" else trace.lengths
        size = trace.rows, None if lengths is None else lengths.identity
        if size not in errors:
            errors[size] = _misfit(point, trace)
        tried += 1
        if not errors[size]:
            example = example or trace
        else:
            why = why or errors[size]
            misfits.append(trace)
    if not misfits:
        return Fit(example, "")
    if len(set(errors.values())) == 1:
        return Fit(example, why)
    return Fit(
        example,
        f"does not fit {len(misfits):,} of {tried:,} batches, the first is "
        f"{misfits[0].whole_label}: {why}",
    )


def _misfit(point: Point, trace: Trace) -> str:
    loaded = trace.loaded()
    if loaded.error:
        return ""
    try:
        check_point(point.workload, point.shape, point.parameters, loaded.inputs)
    except ArgError as error:
        return str(error)
    return ""


class _Design:
    """A design point of the specification with the parameters of all."""

    def __init__(
        self,
        spec: SweepSpec,
        design: Mapping[str, Any],
        index: int,
        problems: Problems,
        machines: dict[str, Machine | MachineError],
    ) -> None:
        self.where = f"design point {index}" + (f" ({_text(design)})" if design else "")
        self._spec, self._design = spec, design
        self._problems, self._machines = problems, machines
        self._values = {**spec.parameters, **design}
        self.own = {
            key: value
            for key, value in self._values.items()
            if key != "machine" and not key.startswith(_MACHINE)
        }

    def check_parameters(self) -> bool:
        """Whether each parameter by itself is sound."""
        found = parameter_problems(self._spec.workload, self.own)
        for key, text in found.items():
            self._blame(key, text)
        return not found

    def machine(self, *, known: bool) -> Machine | None:
        """The machine with what is changed of it; None if something is wrong with it."""
        overrides = {
            key.removeprefix(_MACHINE): value
            for key, value in self._values.items()
            if key.startswith(_MACHINE)
        }
        base = self._values.get("machine", self._spec.machine)
        if not isinstance(base, str):
            self._blame(
                "machine",
                f"expected a name or a file, found {base!r}; name a machine, or leave the key out",
            )
            return None
        wrong = False
        for key in overrides:
            try:
                parse_overrides([f"{key}=0"])
            except MachineError as error:
                self._blame(_MACHINE + key, str(error))
                wrong = True
        if not known and "machine" not in self._values:
            return None
        plain = self._load(base, {})
        if isinstance(plain, MachineError):
            self._blame("machine", str(plain))
            return None
        if wrong or not overrides:
            return None if wrong else plain
        changed = self._load(base, overrides)
        if isinstance(changed, MachineError):
            keys = [_MACHINE + key for key in overrides]
            own = [key for key in keys if key in self._design]
            self._blame((own or keys)[0], str(changed))
            return None
        return changed

    def _load(self, base: str, overrides: Mapping[str, Any]) -> Machine | MachineError:
        """Load each machine once."""
        key = repr((base, overrides))
        if key not in self._machines:
            try:
                self._machines[key] = load_machine(base, overrides or None)
            except MachineError as error:
                self._machines[key] = error
        return self._machines[key]

    def _blame(self, key: str, text: str) -> None:
        """Add a problem where its key stands: in the design point, or once for all of them."""
        if key in self._design or (key not in self._spec.parameters and key != "machine"):
            self._problems.add_of_point(self.where, f"{key}: {text}")
        elif key in self._spec.parameters:
            self._problems.add(f"parameters.{key}: {text}")
        else:
            self._problems.add(f"{key}: {text}")


def _text(design: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in design.items())


def _label(index: int, design: Mapping[str, Any]) -> str:
    """``0003-tile-dynamic``: unique by its number, safe as a folder name everywhere."""
    # The folder of a machine's file is no part of the name: the same sweep elsewhere has the same.
    names = {k: Path(v).name if k == "machine" else v for k, v in design.items()}
    text = "_".join(f"{key}-{value}" for key, value in names.items()) or "all"
    return f"{index:04d}-{re.sub('[^A-Za-z0-9.-]+', '_', text)[:_LABEL_LENGTH]}"
