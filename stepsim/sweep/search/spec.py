"""The specification of a search: that of a sweep, with a section ``search``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from stepsim.errors import ArgError
from stepsim.sweep.analysis.objectives import Objective, parse_objective
from stepsim.sweep.search.proposals import Sampler
from stepsim.sweep.spec.filters import parse_condition
from stepsim.sweep.spec.section import Section
from stepsim.sweep.spec.specification import SweepSpec
from stepsim.typed import typed
from stepsim.wording import STATED

_MOST_TRIALS = 100_000
_MOST_BATCH = 1000
_MOST_OBJECTIVES = 4
_Trials = Annotated[int, Field(strict=True, ge=1, le=_MOST_TRIALS)]
_Batch = Annotated[int, Field(strict=True, ge=1, le=_MOST_BATCH)]
_Seed = Annotated[int, Field(strict=True, ge=0, lt=1 << 32)]
_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SearchOptions(Section):
    """How the design space is searched."""

    objectives: list[str] = Field(description="metrics to optimize; p95_cycles is a percentile")
    constraints: list[str] = Field(
        default=[], description="conditions that designs must satisfy, such as onchip_bytes <= 40e6"
    )
    cost: dict[str, _Weight] = Field(
        default={}, description="weights of the columns whose sum is the metric cost"
    )
    sampler: Literal[get_args(Sampler)] = Field(  # type: ignore[valid-type]
        default="nsga2", description="method that chooses the designs"
    )
    trials: _Trials = Field(description="number of designs to simulate")
    batch: _Batch = Field(default=8, description="designs that are chosen and simulated together")
    seed: _Seed = Field(default=0, description="seed of the search")

    @field_validator("objectives")
    @classmethod
    def _objectives(cls, value: list[str]) -> list[str]:
        if not 1 <= len(value) <= _MOST_OBJECTIVES:
            raise _custom(f"expected 1 to {_MOST_OBJECTIVES} different metrics, found {len(value)}")
        found: dict[Objective, str] = {}
        for text in value:
            try:
                own = parse_objective(text)
            except ArgError as error:
                raise _custom(error) from None
            if own in found:
                raise _custom(
                    f"expected different metrics, found {found[own]} and {text}, which are the "
                    "same; name one of them"
                )
            found[own] = text
        return value

    @field_validator("constraints")
    @classmethod
    def _constraints(cls, value: list[str]) -> list[str]:
        for text in value:
            try:
                parse_condition(text)
            except ArgError as error:
                raise _custom(error) from None
        return value


class TuneSpec(SweepSpec):
    """A sweep in which a search chooses the design points to run.

    ``points`` are tried first.
    """

    search: SearchOptions = Field(description="how the design space is searched")

    @typed
    def search_problems(self) -> list[str]:
        """Problems with the axes of a search, in sentences."""
        problems = self.axis_problems()
        if not self.grid:
            problems.append("grid: missing; give the axes to search, lists of values or ranges")
        if self.search.sampler == "grid" and self.search.seed:
            problems.append(
                "search.seed: has no effect, since the sampler grid takes designs in their order; "
                "remove the key, or choose another sampler"
            )
        if self.replicates:
            problems.append(
                "replicates: a search compares designs over traces; remove the key, and run the "
                "designs that it finds as a sweep with replicates"
            )
        if self.fix is not None:
            problems.append("fix: belongs to one program, and a search tries many; remove the key")
        return problems


def _custom(error: Any) -> PydanticCustomError:
    return PydanticCustomError(STATED, "{text}", {"text": str(error)})
