"""Services as design points: their parameters in place of those of a workload."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

import stepsim.serving
from stepsim.errors import SweepError
from stepsim.results import OF_LIMITS, TAKEN, field
from stepsim.simulation import parameter_columns
from stepsim.sweep.planning.designs import Design
from stepsim.sweep.planning.points import Fit, Point, fit
from stepsim.sweep.planning.traces import NO_TRACE, Trace
from stepsim.sweep.spec.services import SERVICE, service_parameters
from stepsim.workloads import Model, ParameterError, Source, Workload, find_workload

if TYPE_CHECKING:
    from stepsim.serving import ServeSpec, Service
    from stepsim.sweep.spec.specification import SweepSpec

_OF_MACHINE: Final = ("machine", "overrides")
"""Parameters of a service that are keys of the machine in a sweep."""

_SHARED: Final = "model"
"""The parameter whose column runs of programs have as well."""


@dataclass(frozen=True, kw_only=True)
class ServiceWorkload(Workload):
    """What a sweep looks up of the workload of its runs, for services: nothing is fed to them."""

    name: ClassVar = SERVICE

    def check(self, data: Any) -> Sequence[tuple[str, str]]:
        """No data, so that nothing can be wrong with them."""
        return ()


class ServiceSource(Source):
    """The source of a service, which is stepsim's own."""

    def load(self) -> type[Workload]:
        """The workload of services."""
        return ServiceWorkload

    @property
    def is_foreign(self) -> bool:
        """Whether it is code of others; parts of services that are belong to their plugins."""
        return False


def source_of(spec: SweepSpec) -> Source:
    """Where the runs of a specification come from.

    Raises
    ------
    WorkloadError, UserCodeError : as in `find_workload`.
    """
    return find_workload(spec.workload) if spec.service is None else ServiceSource(SERVICE)


def design_of(spec: SweepSpec) -> type[Design]:
    """The class of the design points of a specification."""
    return Design if spec.service is None else ServiceDesign


def columns_of(workload: type[Workload]) -> dict[str, pa.Field]:
    """Columns of the parameters of the runs, by name.

    Raises
    ------
    WorkloadError : as in `parameter_columns`.
    """
    if not issubclass(workload, ServiceWorkload):
        return parameter_columns(workload)
    return {
        column: field(
            column, one.column_type, one.param.unit,
            one.param.help.partition(";")[0] or "parameter of a service",
        )
        for name, one in stepsim.serving.serve_fields().items()
        if name not in (*_OF_MACHINE, _SHARED)
        for column in [_column(name)]
    }  # fmt: skip


def _column(name: str) -> str:
    """The column of a parameter; some have names of columns that all runs have."""
    return f"{SERVICE}_{name}" if name in TAKEN else name


@dataclass(frozen=True, slots=True)
class ServicePoint(Point):
    """A service as a design point.

    Attributes
    ----------
    service : its parameters but for the machine.
    requests_digest : SHA-256 of its requests, with their arrivals.
    """

    service: ServeSpec | None = None
    requests_digest: str = ""

    def prepared(self) -> Service:
        """The service, ready to run.

        Raises
        ------
        StepSimError : as in `stepsim.serve`.
        SweepError : the requests have changed since the sweep was planned.
        """
        assert self.service is not None
        made = _service(self.service, self.machine)
        found = made.settings()["requests_digest"]
        if found != self.requests_digest:
            raise SweepError(
                f"{made.requests.source}: the requests have changed since the sweep was planned; "
                "put them back as they were, and start the sweep again"
            )
        return made

    def columns(self) -> dict[str, Any]:
        """Values of its parameters by column, and all of them as JSON text."""
        assert self.service is not None
        values = _values(self.service)
        fields = stepsim.serving.serve_fields()
        model = values.get(_SHARED)
        texts = {name: _text(value) for name, value in values.items()}
        return {
            "model": texts[_SHARED],
            "model_json": None if model is None else json.dumps({_SHARED: model.to_dict()}),
            "parameters": json.dumps(texts, sort_keys=True),
            "origins": json.dumps(dict(self.origins), sort_keys=True),
            **{
                _column(name): fields[name].column_value(value)
                for name, value in values.items()
                if name != _SHARED
            },
        }


class ServiceDesign(Design):
    """A service of the specification, with the parameters of all points."""

    def __init__(self, spec: SweepSpec, *rest: Any) -> None:
        super().__init__(spec, *rest)
        self._service: ServeSpec | None = None
        self._least_depths = self._machine_depth = None
        self.given = {
            key: value
            for key, value in self._values.items()
            if key != "machine" and not key.startswith("machine.")
        }

    def check(self, *, machine_known: bool) -> bool:
        """Whether its machine and its parameters are valid and have an effect."""
        found = True
        if self._has_machine:
            self._machine = self._find_machine(known=machine_known)
            found = self._machine is not None
        elif keys := [key for key in self._values if key.startswith("machine.")]:
            self._blame(keys[0], "has no effect without a machine; give machine, or leave it out")
            found = False
        given = dict(self.given)
        if "overrides" in given:
            del given["overrides"]
            self._blame("overrides", "is for files of services; write machine.KEY for each key")
            found = False
        known = stepsim.serving.serve_fields()
        try:
            self._service = stepsim.serving.ServeSpec.of(given)
        except ParameterError as error:
            for key, text in error.problems:
                self._blame(key, text, misnamed=key not in known)
            return False
        return found

    @property
    def _has_machine(self) -> bool:
        return "machine" in self._values or "machine" in self._spec.model_fields_set

    @property
    def needs_traces(self) -> bool:
        """A service reads its trace itself."""
        return False

    def _checked(self) -> dict[str, Any]:
        return {}

    def resolved(self, traces: Sequence[Trace]) -> ServicePoint:
        """The point, whose service was made once, so that nothing can be wrong with its parts.

        Raises
        ------
        StepSimError : as in `stepsim.serve`.
        """
        spec, machine = self._service, self._machine
        assert spec is not None
        requests = _service(spec, machine).settings()["requests_digest"]
        values = _values(spec)
        plain = {
            name: value.to_dict() if isinstance(value, Model) else _text(value)
            for name, value in values.items()
        }
        target = None if machine is None else machine.to_dict()
        content = [self._source.text, plain, target, requests, _files(spec)]
        origins = {name: "given" if name in self.given else "default" for name in values}
        return ServicePoint(
            self.index,
            self._label(),
            self._source,
            {},
            origins,
            None,
            machine,
            "executed",
            content,
            None,
            self.group,
            self._replicate(),
            service=spec,
            requests_digest=requests,
        )

    def _blame(self, key: str, text: str, *, misnamed: bool = False) -> None:
        spec = self._spec
        own = key in service_parameters(spec) and key not in {**self._design, **spec.parameters}
        if own and not (key == "machine" and key in spec.model_fields_set):
            name = key.removeprefix("machine.")
            place = f"overrides.{name}" if key.startswith("machine.") else name
            self._problems.add(f"service.{place}: {text}")
        elif misnamed and key in spec.parameters:
            self._problems.add(f"parameters.{key}: {text}")
        else:
            super()._blame(key, text, misnamed=misnamed)


def fit_of(point: Point, traces: Sequence[Trace], *, build: bool) -> Fit:
    """As `fit`; a service has been made already, and reads no batch."""
    return Fit(NO_TRACE, "") if isinstance(point, ServicePoint) else fit(point, traces, build=build)


def machines_of(spec: SweepSpec) -> list[str]:
    """Names of the machines that design points can have; none if steps of services need none."""
    usual: str | None = spec.machine
    if spec.service is not None and "machine" not in spec.model_fields_set:
        usual = service_parameters(spec).get("machine")
    return [str(name) for name in spec.grid.get("machine", [usual]) if name is not None]


def limit_problems(spec: SweepSpec, wanted: Mapping[str, str]) -> list[str]:
    """Problems with measures that need limits where no service has any; ``wanted`` has the key of
    each measure.
    """
    if spec.service is None:
        return []
    axes = {**spec.grid, **{key: None for point in spec.points for key in point}}
    if spec.common().get("slo") is not None or "slo" in axes:
        return []
    return [
        f"{key}: {name} needs limits, and no service states slo; give it, as in "
        "slo: {ttft: 1s, tpot: 50ms}"
        for name, key in wanted.items()
        if name in OF_LIMITS
    ]


def _service(spec: ServeSpec, machine: Any) -> Service:
    return stepsim.serving.service_of(spec, {} if machine is None else {"machine": machine})


def _values(spec: ServeSpec) -> dict[str, Any]:
    """All parameters but those of the machine, by name."""
    found: dict[str, Any] = {}
    parts = (spec.choices, spec.scheduling)
    for name in spec.to_dict():
        if name not in _OF_MACHINE:
            part = next((one for one in parts if hasattr(one, name)), None)
            found[name] = spec.mapping[name] if part is None else getattr(part, name)
    return found


def _text(value: Any) -> Any:
    return value if value is None or type(value) in (bool, int, float, str) else str(value)


def _files(spec: ServeSpec) -> dict[str, str]:
    """SHA-256 of the files that steps and routing name."""
    found = {}
    for name in ("steps", "routing"):
        named = getattr(spec.choices, name)
        for text in () if named is None else (str(named), named.about.partition(",")[0]):
            path = Path(text)
            if text and path.is_file():
                found[name] = _digest([path])
            elif text and path.is_dir():
                found[name] = _digest(sorted(one for one in path.rglob("*") if one.is_file()))
    return found


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
