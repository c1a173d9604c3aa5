"""The specification of a sweep, validated, from YAML, a mapping or keyword arguments."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

import stepsim.ensembles
import stepsim.simulation
from stepsim.arguments import shown
from stepsim.data import in_known_group
from stepsim.documents import load_yaml
from stepsim.errors import ArgError, SweepError
from stepsim.paths import exists
from stepsim.results import COUNTINGS, EVERY_MEASURE
from stepsim.sweep.spec.problems import SeveralProblems, refusal
from stepsim.sweep.spec.ranges import listed_range
from stepsim.sweep.spec.section import Section
from stepsim.sweep.spec.services import (
    SERVICE,
    located as located_service,
    located_value,
    service_parameters,
    with_service,
)
from stepsim.sweep.spec.sizes import MOST_POINTS, check_size
from stepsim.typed import typed
from stepsim.wording import STATED, describe_problems
from stepsim.workloads import plan_file, split_target

_MOST = 1 << 40
_Count = Annotated[int, Field(strict=True, ge=1, le=_MOST)]
_Index = Annotated[int, Field(strict=True, ge=0, le=_MOST)]
_Indices = Annotated[list[_Index], Field(min_length=1)]
_FILES = {
    "machine": (".yaml", ".yml"),
    "model": (".yaml", ".yml", ".json"),
    "workload": (".py",),
    "place": (".yaml", ".yml"),
}
"""Keys that can name a file, and the suffix of its name."""
_Value = int | float | str | bool | list[Any] | dict[str, Any] | None
_Axis = Annotated[list[_Value], BeforeValidator(listed_range)]


class SyntheticTraces(Section):
    """Routing drawn by :func:`stepsim.trace_io.synthetic_routing`, one table per layer-step."""

    tokens: _Count = Field(description="rows of every table: the batch")
    layers: _Count = Field(default=1, description="number of layers")
    steps: _Count = Field(default=1, description="number of forward passes")
    seed: _Index = Field(description="seed of the synthetic tables")
    skew: Annotated[float, Field(ge=0, le=64)] = Field(
        default=1.0, description="Zipf exponent of the popularity of experts"
    )


class TraceSelection(Section):
    """The sources of the traces, and the layer-steps or windows of them to run."""

    files: list[str] = Field(
        default=[], description="files of traces, relative to the spec, or data sets"
    )
    synthetic: SyntheticTraces | None = Field(default=None, description="synthetic tables")
    column: str | None = Field(default=None, description="column of lengths in CSV files")
    layers: _Indices | None = Field(default=None, description="layers to run; all if absent")
    steps: _Indices | None = Field(default=None, description="steps to run; all if absent")
    tokens: _Count | None = Field(
        default=None,
        description="rows that every batch must have, or else fail; with windows, their size",
    )
    min_tokens: _Count | None = Field(
        default=None, description="batches of fewer rows are left out; all are run if absent"
    )
    windows: Literal["all"] | int | list[int] | None = Field(
        default=None,
        description="windows of 'tokens' rows to run: 'all', the first N, or a list",
    )
    sample: _Count | None = Field(default=None, description="number of selected traces to draw")
    seed: _Index = Field(default=0, description="seed of the sample")

    @field_validator("windows", mode="plain")
    @classmethod
    def _windows(cls, value: Any) -> Any:
        """One message in place of one for each of the three forms."""
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        listed = isinstance(value, list) and all(type(v) is int and v >= 0 for v in value)
        if value in (None, "all") or whole or (listed and value):
            return value
        raise PydanticCustomError(
            "windows", "expected 'all', the first N from 1, or a list of numbers from 0"
        )


class SweepLimits(Section):
    """Limits at which a run is stopped with the status 'limit'. Both count simulated work."""

    max_cycles: _Count | None = Field(default=None, description="simulated cycles")
    max_steps: _Count | None = Field(default=None, description="unit firings")


class EnsembleOptions(Section):
    """Disturbed runs in addition to each run; see `stepsim.ensemble`."""

    runs: Annotated[int, Field(strict=True, ge=1, le=1024)] = Field(
        description="number of disturbed runs"
    )
    seed: _Index = Field(default=0, description="seed of the disturbances")
    bounds: dict[str, int | list[int]] = Field(
        default={}, description="bounds by disturbance, as hbm.latency: 3 or [0, 3]"
    )

    @model_validator(mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        """A single number is the number of runs."""
        return {"runs": value} if isinstance(value, int) and value is not True else value

    @field_validator("bounds")
    @classmethod
    def _known(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Check names and numbers; whether a disturbance applies is known only for its runs."""
        try:
            stepsim.ensembles.checked_bounds(stepsim.simulation.DISTURBANCES, value, "bounds")
        except ArgError as error:
            raise PydanticCustomError(STATED, "{error}", {"error": str(error)}) from error
        return value


class SweepSpec(Section):
    """A sweep: every point of the design space on every trace.

    The design points are the product of the axes of ``grid``, followed by ``points`` as listed;
    ``parameters`` apply to all. A key ``machine`` names a machine, keys like
    ``machine.hbm.channels`` change it, ``place`` places operators on its network, ``config`` takes
    values that are not given from published experiments, and all others are parameters of the
    workload.
    """

    name: str = Field(default="sweep", description="shown in summaries")
    workload: str = Field(description="name of a workload, or file and name as in gemm.py:gemm")
    service: str | dict[str, Any] | None = Field(
        default=None,
        description="service to run in place of a workload: a file of `stepsim serve`, or its "
        "parameters",
    )
    model: str | dict[str, Any] | None = Field(
        default=None,
        description="parameter model of all points: a name, a file, or dimensions as a mapping",
    )
    traces: TraceSelection | None = Field(
        default=None,
        description="traces and selection; a decoder of a model without experts needs none",
    )
    lengths: TraceSelection | None = Field(
        default=None, description="cache lengths of a decoder, selected like traces"
    )
    pairs: Literal["all", "step", "order"] | None = Field(
        default=None, description="which traces of a decoder go with which lengths; all if absent"
    )
    batch: _Count | None = Field(
        default=None,
        description="requests of design points that read no trace, as parts of a decoder; 64 if "
        "absent",
    )
    machine: str = Field(default="sda-1024", description="name or file of the machine")
    fix: str | None = Field(
        default=None, description="file of `stepsim why --write-fix`, made to every point"
    )
    place: str | None = Field(
        default=None,
        description="where operators are on the network of the machine: a file of `stepsim "
        "place`, row-major, or auto for each run; also a key of grid and points",
    )
    parameters: dict[str, _Value] = Field(default={}, description="parameters of every point")
    grid: dict[str, _Axis] = Field(default={}, description="axes of the design space")
    points: list[dict[str, _Value]] = Field(default=[], description="listed design points")
    replicates: dict[str, _Axis] = Field(
        default={},
        description="axes, such as a seed, over which results are means: every design point runs "
        "with all of their values",
    )
    metrics: list[Literal[EVERY_MEASURE]] | None = Field(  # type: ignore[valid-type]
        default=None, description="totals to keep; the others are null. All if absent"
    )
    counting: Literal[COUNTINGS] | None = Field(  # type: ignore[valid-type]
        default=None,
        description="how bytes and FLOPs are counted; executed if absent, published for points "
        "with config published",
    )
    ensemble: EnsembleOptions | None = Field(
        default=None,
        description="number of disturbed runs of each run, or their number, seed and bounds; "
        "gives the columns cycles_p5, cycles_median and cycles_p95",
    )
    bounds: bool = Field(
        default=False,
        description="the resource that needs most time alone in each run, by further runs; gives "
        "the columns resource_kind, resource_target and bound_cycles",
    )
    units: bool = Field(default=False, description="keep the stall breakdown of every unit as well")
    limits: SweepLimits = Field(
        default=SweepLimits(), description="limits at which a run is stopped"
    )
    chunk: _Count = Field(default=20, description="runs that are computed and saved together")

    @model_validator(mode="before")
    @classmethod
    def _named_after_service(cls, data: Any) -> Any:
        """A service needs no workload."""
        if isinstance(data, Mapping) and data.get("service") is not None:
            return {"workload": SERVICE, **data}
        return data

    @typed
    def common(self) -> dict[str, Any]:
        """The parameters of all points, including the model, and those of a service.

        Raises
        ------
        SweepError
            The model is given twice.
        """
        own = service_parameters(self)
        if self.model is None:
            return {**own, **self.parameters}
        if "model" in self.parameters:
            raise SweepError("model: given twice, here and in parameters; keep one")
        return {**own, "model": self.model, **self.parameters}

    @typed
    def axis_problems(self) -> list[str]:
        """Problems of axes that are empty or have a value twice, in sentences."""
        problems = []
        for key, axes in (("grid", self.grid), ("replicates", self.replicates)):
            for axis, values in axes.items():
                texts = [repr(value) for value in values]
                if not values or len(set(texts)) != len(texts):
                    what = "holds a value twice" if values else "is empty"
                    problems.append(f"{key}.{axis}: {what}; give every value of an axis once")
        varied = {*self.grid, *self.parameters, *(key for point in self.points for key in point)}
        problems += [
            f"replicates.{axis}: also given in grid, points or parameters; name it once"
            for axis in self.replicates
            if axis in varied or (axis == "model" and self.model is not None)
        ]
        return problems

    @property
    def replicate_count(self) -> int:
        """The number of replicates of each design point."""
        return math.prod(map(len, self.replicates.values()))

    @typed
    def without_repeats(self) -> SweepSpec:
        """The same with every value of an axis once."""
        once = {
            key: {
                axis: list({repr(value): value for value in values}.values())
                for axis, values in axes.items()
            }
            for key, axes in (("grid", self.grid), ("replicates", self.replicates))
        }
        return self.model_copy(update=once)

    @typed
    def design_points(self) -> list[dict[str, Any]]:
        """Every design point without the common parameters, in a fixed order.

        The replicates of a point follow each other.

        Raises
        ------
        SweepError
            An axis is empty or has a value twice, two points are the same, or they are too many.
        """
        problems = self.axis_problems()
        if problems:
            raise SeveralProblems(problems)
        count = math.prod(map(len, self.grid.values())) + len(self.points)
        count *= self.replicate_count
        check_size("grid", count, MOST_POINTS, "design points", "leave out values, or divide it")
        names = list(self.grid)
        product = [
            dict(zip(names, values, strict=True))
            for values in itertools.product(*self.grid.values())
        ]
        points = (product if names else []) + self.points
        points = points or [{}]
        first: dict[str, int] = {}
        for i, point in enumerate(points):
            full = repr(sorted((self.parameters | point).items(), key=str))
            if first.setdefault(full, i) != i:
                raise SweepError(
                    f"design points {first[full]} and {i} are the same ({point}); "
                    "remove one of them"
                )
        replicates = [
            dict(zip(self.replicates, values, strict=True))
            for values in itertools.product(*self.replicates.values())
        ]
        return [point | replicate for point in points for replicate in replicates]


@dataclass(frozen=True, slots=True)
class Draft:
    """A specification as it was read, with the problems of its keys.

    Attributes
    ----------
    spec : the specification without the wrong keys; None if it cannot be checked without them.
    where, lines : the source and the lines of its keys, for messages.
    problems : the problems of the keys.
    wrong : keys of the specification whose values are wrong.
    """

    spec: SweepSpec | None
    where: str = "sweep"
    lines: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    wrong: frozenset[str] = frozenset()

    def of(self, spec: SweepSpec) -> Draft:
        """The same with another specification."""
        return replace(self, spec=spec)

    def refusal(self, more: Sequence[str] = ()) -> SweepError:
        """The error that lists all problems."""
        return refusal(self.where, [*self.problems, *more], self.lines)


@typed
def load_spec(source: SweepSpec | Mapping[str, Any] | str | Path) -> SweepSpec:
    """Read and check a specification: a YAML file, a mapping, or a checked specification.

    Files of traces and machines are looked for relative to the YAML file.

    Raises
    ------
    SweepError
        The file is unreadable, or keys are unknown, missing or mistyped; all are listed together.
    """
    draft = read_spec(source)
    if draft.problems or draft.spec is None:
        raise draft.refusal()
    return draft.spec


def read_spec(
    source: SweepSpec | Mapping[str, Any] | str | Path, kind: type[SweepSpec] = SweepSpec
) -> Draft:
    """Like :func:`load_spec`, but problems of the keys are kept, to be listed with the rest.

    ``kind`` is the class of specification to read, which may have more keys.

    Raises
    ------
    SweepError
        The file is unreadable, is not a mapping, or has another level than tiles.
    """
    if isinstance(source, SweepSpec):
        return with_service(Draft(source))
    where, lines, data = "sweep", {}, source
    if isinstance(source, str | Path):
        path = Path(source)
        where = f"sweep {path}"
        document = load_yaml(path, "sweep", SweepError, "See the documentation of sweeps.")
        data, lines = document.data, document.lines
    if not isinstance(data, Mapping):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise SweepError(f"{where}: expected a mapping with the key 'workload', found {found}")
    if "level" in data:
        raise SweepError(
            f"{where}: level: sweeps run at the tile level; leave it out, and use the machine "
            "hdl-arbiter for the last step before the hardware level. Single points run with "
            "`stepsim run --level hardware`, several as your own figure, whose Run has a level"
        )
    for key in data:
        if not _is_text(key):
            raise SweepError(f"{where}: keys are names such as workload, found {shown(key)}")
    draft = _validated(data, where, lines, kind)
    if draft.spec is None or not isinstance(source, str | Path):
        return with_service(draft)
    return with_service(draft.of(_resolved(draft.spec, Path(source).parent)))


def _is_text(key: object) -> bool:
    """Whether a key can be written out; Python writes no number of 5,000 digits."""
    try:
        str(key).encode()
    except ValueError:
        return False
    return True


def _validated(
    data: Mapping[Any, Any], where: str, lines: Mapping[str, int], kind: type[SweepSpec]
) -> Draft:
    try:
        return Draft(kind.model_validate(dict(data)), where, lines)
    except RecursionError:
        raise SweepError(
            f"{where}: a value contains itself, expected plain lists and mappings; write it out"
        ) from None
    except ValidationError as error:
        problems = tuple(_described(error, lines, kind))
        keys = {str(item["loc"][0]) for item in error.errors(include_url=False)}
    known = list(kind.model_fields)
    # A misspelled key is not also reported as missing; its value is checked under the intended key.
    meant = {
        key: near[0]
        for key in keys.difference(known).intersection(data)
        if (near := get_close_matches(key, known, n=1)) and near[0] not in data
    }
    problems = tuple(
        p for p in problems if not p.startswith(tuple(f"{n}: " for n in meant.values()))
    )
    wrong = frozenset(keys.difference(meant.values()))
    # A key that is no text has another name in the error: True is 1.
    rest = {key: value for key, value in data.items() if isinstance(key, str) and key not in wrong}
    try:
        whole = kind.model_validate(rest | {near: data[key] for key, near in meant.items()})
        return Draft(whole, where, _also_as(meant, lines), problems, wrong)
    except ValidationError as error:
        wrong |= frozenset(meant.values())
        # The other problems are reported already.
        of_meant = re.compile(rf"(line \d+, )?({'|'.join(meant.values())})[.\[:]")
        also = _described(error, _also_as(meant, lines), kind)
        problems += tuple(filter(of_meant.match, also)) if meant else ()
        needed = {name for name, own in kind.model_fields.items() if own.is_required()}
        needed.add("service")  # which is in place of a workload
        spec = None if wrong & needed else kind.model_validate(rest)
        return Draft(spec, where, lines, problems, wrong)


def _described(
    error: ValidationError, lines: Mapping[str, int], kind: type[SweepSpec]
) -> list[str]:
    return describe_problems(error.errors(include_url=False), kind.model_json_schema(), lines)


def _also_as(meant: Mapping[str, str], lines: Mapping[str, int]) -> dict[str, int]:
    """The lines of keys; those of misspelled keys also under the intended key."""
    found = dict(lines)
    for path, line in lines.items():
        key = re.split(r"[.\[]", path, maxsplit=1)[0]
        if key in meant:
            found[meant[key] + path.removeprefix(key)] = line
    return found


def _file(folder: Path, name: str) -> str:
    """A file relative to the specification; the name of a data set stays as it is."""
    path = folder / name
    return name if in_known_group(name) and not exists(path, SweepError) else str(path)


def _resolved(spec: SweepSpec, folder: Path) -> SweepSpec:
    """Files of workloads, models, traces and machines relative to the folder of the YAML file."""
    changes: dict[str, Any] = {}
    for key, selection in (("traces", spec.traces), ("lengths", spec.lengths)):
        if selection is not None and selection.files:
            files = [_file(folder, name) for name in selection.files]
            changes[key] = selection.model_copy(update={"files": files})

    def located(key: str, value: Any) -> Any:
        if spec.service is not None:
            return located_value(key, value, folder)
        if not isinstance(value, str) or key not in _FILES:
            return value
        if key == "workload" and plan_file(value, folder) is not None:
            return str(folder / value)
        file = split_target(value)[0] if key == "workload" else value
        return str(folder / value) if file and file.endswith(_FILES[key]) else value

    if spec.service is not None:
        changes["service"] = located_service(spec, folder)
    for key in {"workload", "model", "machine", "place"} & spec.model_fields_set:
        changes[key] = located(key, getattr(spec, key))
    if spec.fix is not None:
        changes["fix"] = str(folder / spec.fix)
    changes["parameters"] = {key: located(key, value) for key, value in spec.parameters.items()}
    changes["grid"] = {
        key: [located(key, value) for value in values] for key, values in spec.grid.items()
    }
    changes["replicates"] = {
        key: [located(key, value) for value in values] for key, values in spec.replicates.items()
    }
    changes["points"] = [
        {key: located(key, value) for key, value in point.items()} for point in spec.points
    ]
    return spec.model_copy(update=changes)
