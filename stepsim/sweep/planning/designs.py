"""The design points of a sweep: parameters and machines resolved."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from stepsim.arguments import AUTO_DEPTH, is_depth_plan
from stepsim.errors import ArgError, MachineError, StepSimError, UserCodeError
from stepsim.machine import Machine, load_machine, parse_overrides
from stepsim.placement import PlaceChoice, read_choice
from stepsim.simulation import Fix, counting_of, load_fix
from stepsim.sweep.planning.points import Point
from stepsim.sweep.planning.traces import Trace
from stepsim.sweep.spec.problems import Problems
from stepsim.sweep.spec.specification import SweepSpec
from stepsim.workloads import (
    Data,
    Input,
    Model,
    ParameterError,
    Source,
    depth_parameter,
    fields_of,
    parameter_problems,
    resolve,
)

_LABEL_LENGTH = 80
_MACHINE = "machine."
_DEPTH = "machine.fifo.depth"
"""The depth of all FIFOs of a workload without a parameter for it."""
_FILES = ("machine", "model", "place")
_ONE_DEPTH = (
    "; design points have one depth for all FIFOs, or auto, which finds the least bytes for each "
    "run. Use depths from a file with `stepsim run --fifo-depth FILE.yaml`, or state them by "
    "with_depth in your own workload"
)
_PLAIN = (int, float, str, bool, NoneType)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")


def read_designs(
    spec: SweepSpec,
    source: Source,
    problems: Problems,
    kind: type[Design],
    *,
    machine_known: bool,
) -> list[Design]:
    """Design points as they are specified; errors in others are added to ``problems``.

    Without the machine only the names of its changed values are checked. ``kind`` is their class.
    """
    for problem in spec.axis_problems():
        problems.add(problem)
    given: list[dict[str, Any]] = []
    replicates = 1
    common: dict[str, Any] = {}
    if all(spec.grid.values()) and all(spec.replicates.values()):
        with problems.collected():
            common = spec.common()
            without = spec.without_repeats()
            given, replicates = without.design_points(), without.replicate_count
    machines: dict[str, Machine | MachineError] = {}
    fix: Fix | None = None
    if spec.fix is not None:
        try:
            fix = load_fix(spec.fix)
        except ArgError as error:
            problems.add(f"fix: {error}")
    found = []
    for index, values in enumerate(given):
        # Listed points come last.
        listed = index // replicates - (len(given) // replicates - len(spec.points))
        one = kind(spec, source, common, values, index, listed, problems, machines, fix)
        if one.check(machine_known=machine_known):
            found.append(one)
    return found


def resolve_points(
    designs: Sequence[Design],
    traces: Mapping[int, Sequence[Trace]],
    problems: Problems,
) -> dict[str, Point]:
    """Design points by their names in messages; errors in others are added to ``problems``.

    Those whose parameters depend on traces that are not known are left out.
    """
    points: dict[str, Point] = {}
    first: dict[str, str] = {}
    for one in designs:
        if one.needs_traces and one.index not in traces:
            continue
        try:
            point = one.resolved(traces.get(one.index, ()))
        except ParameterError as error:
            for name, text in error.problems:
                problems.add_of_point(one.where, f"{name}: {text}", partial(one.place, name))
            continue
        except UserCodeError:
            raise
        except StepSimError as error:
            problems.add_of_point(one.where, str(error))
            continue
        same = first.setdefault(json.dumps(point.content, sort_keys=True), one.where)
        if same != one.where:
            problems.add_of_point(
                one.where,
                f"is the same as {same} once defaults are filled in; remove one of them",
            )
        points[one.where] = point
    return points


class Design:
    """A design point of the specification, with the parameters of all points.

    Attributes
    ----------
    where : its name in messages.
    group : index of the first of its replicates.
    given : the given parameters of the workload.
    """

    def __init__(
        self,
        spec: SweepSpec,
        source: Source,
        common: Mapping[str, Any],
        design: Mapping[str, Any],
        index: int,
        listed: int,
        problems: Problems,
        machines: dict[str, Machine | MachineError],
        fix: Fix | None = None,
    ) -> None:
        self.index = index
        self._fix = fix
        self.group = index - index % spec.replicate_count
        self._listed = listed
        self.where = f"design point {index}" + (f" ({_text(design)})" if design else "")
        self._spec, self._source, self._design = spec, source, design
        self._workload = source.load()
        self._problems, self._machines = problems, machines
        self._values = {**common, **design}
        self._machine: Machine | None = None
        own = {
            key: value
            for key, value in self._values.items()
            if key != "machine" and not key.startswith(_MACHINE)
        }
        self._config = own.pop("config", None)
        # A service has no such parameter.
        self._place_text = None if spec.service is not None else own.pop("place", spec.place)
        self._place: PlaceChoice | None = None
        known = fields_of(self._workload)
        depth = depth_parameter(known)
        self._least_depths = depth if own.get(depth) == AUTO_DEPTH else None
        # Without a parameter for it, one depth of all FIFOs is that of the machine.
        given = depth not in known and depth in own and not is_depth_plan(own[depth])
        self._machine_depth = depth if given else None
        if given or self._least_depths is not None:
            del own[depth]
        self.given = own

    def check(self, *, machine_known: bool) -> bool:
        """Whether its machine, and each parameter by itself, is valid."""
        self._machine = self._find_machine(known=machine_known)
        with self._source.user_code():
            found = parameter_problems(self._workload, self.given)
        known = fields_of(self._workload)
        for key, text in found:
            depth = key in known and known[key].param.machine == "fifo.depth"
            depth = depth or (key == depth_parameter(known) and key not in known)
            advice = _ONE_DEPTH if depth and is_depth_plan(self.given[key]) else ""
            self._blame(key, text + advice, misnamed=key not in known)
        if self._fix is not None and self._least_depths is not None:
            self._blame(
                self._least_depths,
                f"{AUTO_DEPTH} finds depths for every run, and the fix {self._fix.path} has values "
                "for its program; give one of them",
            )
            return False
        return self._reads_place() and not found and self._machine is not None

    def _reads_place(self) -> bool:
        """Whether its placement can be read, if it has one."""
        text = self._place_text
        if text is None:
            return True
        if not isinstance(text, str):
            self._blame("place", f"expected FILE.yaml, row-major or auto, found {text!r}")
            return False
        try:
            self._place = read_choice(text)
        except ArgError as error:
            self._blame("place", str(error))
            return False
        return True

    @property
    def needs_traces(self) -> bool:
        """Whether parameters that are not given depend on the traces."""
        return self._config is not None

    def routing_shape(self) -> tuple[int, int] | None:
        """Experts of the routing that it needs, if its parameters determine them.

        Raises
        ------
        ArgError
            The model has no experts.
        """
        with self._source.user_code():
            return self._workload.routing_shape(self._checked())

    def unneeded(self) -> Mapping[Input, str]:
        """Inputs of the workload that have no effect on it, each with the reason."""
        with self._source.user_code():
            return self._workload.unneeded(self._checked())

    def needed(self) -> tuple[Input, ...]:
        """Inputs of the workload that it needs."""
        with self._source.user_code():
            return self._workload.needed(self._checked())

    def _checked(self) -> dict[str, Any]:
        known = fields_of(self._workload)
        return {name: known[name].checked(value) for name, value in self.given.items()}

    def resolved(self, traces: Sequence[Trace]) -> Point:
        """The point with all parameters; published settings may depend on the traces.

        Raises
        ------
        ParameterError
            A parameter is missing, or there is no such experiment.
        """
        assert self._machine is not None
        data: list[Data] = []
        if self.needs_traces:
            usable = [trace for trace in traces if not trace.error]
            sizes = {trace.shape_for(self._workload, self.given): trace for trace in usable}
            loaded = (trace.loaded() for trace in sizes.values())
            with self._source.user_code():
                data = [one.fed_to(self._workload, self.given) for one in loaded if not one.error]
        with self._source.user_code():
            found = resolve(
                self._workload, self.given, machine=self._machine, config=self._config, data=data
            )
            values = found.workload.values()
            known = fields_of(self._workload)
            plain = {
                name: _plain(name, value)
                for name, value in values.items()
                if not (known[name].param.added and value == known[name].default)
            }
        content = [self._source.text, plain, self._machine.to_dict(), *self._sizing()]
        if self._fix is not None:
            content.append({"fix": self._fix.data})
        if self._place is not None:
            content.append({"place": self._place.content})
        return Point(
            self.index,
            self._label(),
            self._source,
            self._portable(values, found.origins),
            found.origins,
            found.config,
            self._machine,
            counting_of(self._spec.counting, found.config),
            content,
            self._depths(),
            self.group,
            self._replicate(),
            self._fix,
            self._place,
        )

    def _label(self) -> str:
        return _label(self.index, self._design)

    def _replicate(self) -> str | None:
        """The values that distinguish it from the others of its group, as text."""
        return _text({key: self._design[key] for key in self._spec.replicates}) or None

    def _depths(self) -> tuple[str, Any] | None:
        """The key for the depths of FIFOs, where the workload does not take its value."""
        key = self._least_depths or self._machine_depth
        return None if key is None else (key, self._values[key])

    def _sizing(self) -> list[str]:
        """The part of its content that says that depths are found for each run."""
        return [] if self._least_depths is None else [f"{self._least_depths}={AUTO_DEPTH}"]

    def _portable(self, values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
        """The values without objects of classes that only the user's file defines."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, (*_PLAIN, tuple, Model)):
                found[name] = value
            elif origins[name] == "given":
                found[name] = self.given[name]
            elif origins[name] in ("machine", "published", "model"):
                found[name] = str(value)
        return found

    def place(self, key: str) -> str | None:
        """The path of a key's value in the specification, such as ``grid.tile[2]``."""
        if key not in self._design:
            return None
        if self._listed >= 0 and key not in self._spec.replicates:
            return f"points[{self._listed}].{key}"
        axes = "replicates" if key in self._spec.replicates else "grid"
        texts = [repr(value) for value in getattr(self._spec, axes)[key]]
        return f"{axes}.{key}[{texts.index(repr(self._design[key]))}]"

    def _find_machine(self, *, known: bool) -> Machine | None:
        """The machine with its changes; None if it is invalid."""
        overrides = {
            key.removeprefix(_MACHINE): value
            for key, value in self._values.items()
            if key.startswith(_MACHINE)
        }
        if self._machine_depth is not None:
            if _DEPTH in self._values:
                self._blame(
                    self._machine_depth,
                    f"found with {_DEPTH}, which is the same for this workload; give one of them",
                )
                return None
            overrides[_DEPTH.removeprefix(_MACHINE)] = self._values[self._machine_depth]
        usual: Machine | str = self._spec.machine
        if "machine" not in self._spec.model_fields_set:
            usual = self._workload.own_machine or usual
        base = self._values.get("machine", usual)
        if not isinstance(base, str) and base is not usual:
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
                self._blame(_MACHINE + key, str(error), misnamed=True)
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

    def _load(self, base: Machine | str, overrides: Mapping[str, Any]) -> Machine | MachineError:
        """Load each machine once."""
        key = repr((base, overrides))
        if key not in self._machines:
            try:
                self._machines[key] = load_machine(base, overrides or None)
            except MachineError as error:
                self._machines[key] = error
        return self._machines[key]

    def _blame(self, key: str, text: str, *, misnamed: bool = False) -> None:
        """Add a problem at its key: in the design point, or once for all of them."""
        if key == _DEPTH and self._machine_depth is not None:
            key = self._machine_depth
        for axes in ("grid", "replicates"):
            if misnamed and key in getattr(self._spec, axes):
                self._problems.add(f"{axes}.{key}: {text}")
                return
        common = key in self._spec.parameters or (key == "model" and self._spec.model is not None)
        if key in self._design or (not common and key != "machine"):
            self._problems.add_of_point(self.where, f"{key}: {text}", partial(self.place, key))
        elif key in self._spec.parameters:
            self._problems.add(f"parameters.{key}: {text}")
        else:
            self._problems.add(f"{key}: {text}")


def _plain(name: str, value: Any) -> Any:
    """A parameter as a JSON value, the same in every process.

    Raises
    ------
    ParameterError
        The text of a user's class has a memory address, because it defines no ``__str__``.
    """
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, _PLAIN):
        return value
    text = str(value)
    if _ADDRESS.search(text):
        raise ParameterError(
            [
                (
                    name,
                    f"class {type(value).__name__} has no text by which results can name "
                    "its values; define __str__",
                )
            ]
        )
    return text


def _text(design: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in design.items())


def _label(index: int, design: Mapping[str, Any]) -> str:
    """``0003-tile-dynamic``: unique by its number, safe as a folder name everywhere."""
    # The folder of a machine's file is left out, so that the name is the same elsewhere.
    names = {
        key: Path(value).name if key in _FILES and isinstance(value, str) else value
        for key, value in design.items()
    }
    text = "_".join(f"{key}-{value}" for key, value in names.items()) or "all"
    return f"{index:04d}-{re.sub('[^A-Za-z0-9.-]+', '_', text)[:_LABEL_LENGTH]}"
