"""``Choices``: what a design is made with, every choice declared once.

A choice is an argument of ``compile``, an option of ``stepsim compile`` and a key of a plan. One
that a search may vary is also a parameter, an axis and a column of the workload ``compiled``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError
from stepsim.workloads import Param, check_fields, fields_of

Order: TypeAlias = Literal["reductions_outermost", "reductions_innermost", "tokens_outermost"]
OrderChoice: TypeAlias = Literal["fastest"] | Order
"""An order of loops by name, or the one with the fewest simulated cycles."""

Fusion: TypeAlias = Literal["merge", "greedy", "exhaustive"]
Unrolling: TypeAlias = Literal["heap_skip", "heap_stop", "exact"]
Sizing: TypeAlias = Literal["lp", "normal", "conservative", "recorded", "unbounded"]
"""Where depths come from: the linear program with effective intervals (``lp``), those of each
kernel, or stretched to the slowest; the program over the stamps of a run with unbounded FIFOs
(``recorded``, as `size_fifos`); or every FIFO as deep as the run needs it, without sizing."""

Shrink: TypeAlias = Annotated[bool, Param("make FIFOs smaller by runs", of_depths=True)]


def _table(value: Any, what: str, is_row: Callable[[Any], bool]) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(map(is_row, value.values())):
        raise ArgError(f"expected {what}, found {shown(value)}")
    return dict(value)


class Tiles(Mapping[str, Mapping[str, int]]):
    """Steps of the dims of single operators."""

    @staticmethod
    def parse(value: Any) -> Tiles:
        def is_row(row: Any) -> bool:
            return isinstance(row, Mapping) and all(map(is_whole, row.values()))

        return cast(Tiles, _table(value, "{operator: {dim: step}}", is_row))


class Orders(Mapping[str, Sequence[str]]):
    """Loops of single operators, outermost first."""

    @staticmethod
    def parse(value: Any) -> Orders:
        def is_row(row: Any) -> bool:
            return isinstance(row, Sequence)

        return cast(Orders, _table(value, "{operator: dims}", is_row))


class Vectors(Mapping[str, tuple[int, int]]):
    """Vectors that single edges carry."""

    metavar: ClassVar[str] = "tile|narrow"

    @staticmethod
    def parse(value: Any) -> Vectors:
        def is_row(row: Any) -> bool:
            return isinstance(row, tuple | list) and len(row) == 2 and all(map(is_whole, row))

        return cast(Vectors, _table(value, "'tile', 'narrow' or {edge: (rows, columns)}", is_row))


_MOST_BYTES = 1 << 60


@dataclass(frozen=True, kw_only=True)
class SearchedChoices:
    """Choices that a search may vary."""

    tile: Annotated[
        int, Param("rows per tile; as many along its other dims", "rows", text=True)
    ] = 16
    """By default as of the public predecessor of StreamTensor."""

    unroll: Annotated[int, Param("multipliers of all kernels together", "lanes")] = 2048
    """By default the largest products of GPT-2 medium get 512 each, which is what the published
    prefill times amount to (StreamTensor, section 6.3)."""

    unrolling: Annotated[Unrolling, Param("how multipliers are spread over kernels")] = "heap_skip"

    order: Annotated[
        OrderChoice,
        Param("order of the loops of all kernels; fastest tries the others by simulation"),
    ] = "fastest"
    """``reductions_outermost`` is the paper's, and that of a model with experts, where the fastest
    order depends on the routing of a run."""

    vectors: Annotated[
        Literal["tile", "narrow"] | Vectors,
        Param("what FIFOs carry: whole tiles, or vectors that are just fast enough"),
    ] = "tile"
    """Or rows and columns by name of an edge, the others being narrow."""

    fusion: Annotated[Fusion, Param("how kernels are put into groups")] = "merge"

    budget: Annotated[
        int | None,
        Param(
            "on-chip memory for the converters of a group", "bytes", least=0, most=_MOST_BYTES,
            otherwise="the on-chip memory of the machine",
        ),
    ] = None  # fmt: skip

    reuse_bytes: Annotated[
        int | None,
        Param(
            "memory in which a load keeps what is read again", "bytes", least=0, most=_MOST_BYTES,
            otherwise="256 KiB",
        ),
    ] = None  # fmt: skip

    packed: Annotated[bool, Param("weights lie tile after tile off chip")] = True
    """In words of the memory port, so that loads are bursts."""

    folded: Annotated[bool, Param("kernels share buffers where their orders agree")] = False
    """Those with no other stream between them, which then need no FIFO."""

    sizing: Annotated[
        Sizing,
        Param(
            "where FIFO depths come from, before runs repair them", formerly="fifo",
            of_depths=True,
        ),
    ] = "lp"  # fmt: skip

    max_slowdown: Annotated[
        float,
        Param(
            "how much longer than with unbounded FIFOs a run may take; 0.005 is 0.5 %", "fraction",
            least=0, most=math.inf, formerly="slowdown", of_depths=True,
        ),
    ] = 0.005  # fmt: skip

    shrink: Shrink = True


@dataclass(frozen=True, kw_only=True)
class Choices(SearchedChoices):
    """What a design is made with.

    Raises
    ------
    ParameterError : a choice has another type or is out of range; all of them are listed.
    """

    tiles: Annotated[Tiles | None, Param("steps of single operators")] = None
    orders: Annotated[Orders | None, Param("loops of single operators, outermost first")] = None

    runs: Annotated[int, Param("most runs that shrink the FIFOs of a group", least=0)] = 300
    """With 160 of them those of TinyLlama's prefill take 29.9 MB, with 300 they take 1.0 MB; those
    of GPT-2 medium take the same with both."""

    predict: Annotated[
        bool, Param("report the cycles that the model of stepping kernels expects")
    ] = True

    placed: Annotated[
        bool | None,
        Param(
            "choose memory kinds of buffers and dies of kernels",
            otherwise="if the machine states a device",
        ),
    ] = None  # fmt: skip

    guard: Annotated[
        bool, Param("with experts, size FIFOs such that no other routing deadlocks either")
    ] = True

    fit: Annotated[
        bool,
        Param("try smaller groups, tiles and fewer multipliers where a design does not fit"),
    ] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def recorded(self, *, experts: bool) -> dict[str, Any]:
        """Those that decide a design and are not None, by their key in a plan.

        The key is the name that a choice had when the format was made.
        """
        without = {"runs", "predict", "placed", "fit"}
        without |= {"sizing", "shrink"} if experts else {"guard"}
        return {
            field.param.formerly or name: value
            for name, field in fields_of(type(self)).items()
            if name not in without and (value := getattr(self, name)) is not None
        }
