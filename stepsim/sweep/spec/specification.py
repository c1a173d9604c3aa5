"""The keys of the specification of a sweep, and the checks of their values."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

import stepsim.ensembles
import stepsim.simulation
from stepsim.errors import ArgError, SweepError
from stepsim.results import COUNTINGS, EVERY_MEASURE
from stepsim.sweep.spec.problems import SeveralProblems
from stepsim.sweep.spec.ranges import listed_range
from stepsim.sweep.spec.section import Section
from stepsim.sweep.spec.services import (
    SERVICE,
    service_parameters,
)
from stepsim.sweep.spec.sizes import MOST_POINTS, check_size
from stepsim.typed import typed
from stepsim.wording import STATED

_MOST = 1 << 40
_Count = Annotated[int, Field(strict=True, ge=1, le=_MOST)]
_Index = Annotated[int, Field(strict=True, ge=0, le=_MOST)]
_Indices = Annotated[list[_Index], Field(min_length=1)]
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

    @field_validator("layers", "steps")
    @classmethod
    def _each_once(cls, value: list[int] | None) -> list[int] | None:
        """A batch runs once."""
        twice = [one for one, count in Counter(value).items() if count > 1]
        if twice:
            raise PydanticCustomError(
                STATED, "expected each number once, found {one} more than once", {"one": twice[0]}
            )
        return value

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
        default=None, min_length=1, description="totals to keep; the others are null. All if absent"
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
