"""``Choices``: the options of a design, each declared once.

A choice is an argument of ``compile``, an option of ``stepsim compile`` and a key of a plan. One
that a search may vary is also a parameter, an axis and a column of the workload ``compiled``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError
from stepsim.workloads import Param, ParameterError, check_fields, fields_of

Order: TypeAlias = Literal["reductions_outermost", "reductions_innermost", "tokens_outermost"]
OrderChoice: TypeAlias = Literal["fastest"] | Order
"""An order of loops by name, or the one with the fewest simulated cycles."""

Fusion: TypeAlias = Literal["merge", "greedy", "exhaustive"]
Unrolling: TypeAlias = Literal["heap_skip", "heap_stop", "exact"]
Sizing: TypeAlias = Literal["lp", "normal", "conservative", "recorded", "unbounded"]
"""The source of depths: the linear program with effective intervals (``lp``), with each kernel's
own (``normal``), or with all stretched to the slowest (``conservative``); the program over the
timestamps of a run with unbounded FIFOs (``recorded``, as `size_fifos`); or the peak occupancy of
that run, without sizing (``unbounded``)."""

Shrink: TypeAlias = Annotated[bool, Param("shrink FIFOs by further runs", of_depths=True)]


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
    """The default is that of the public predecessor of StreamTensor."""

    unroll: Annotated[int, Param("total multipliers of all kernels", "lanes")] = 2048
    """By default the largest products of GPT-2 medium get 512 each, which matches the published
    prefill times (StreamTensor, Tables 4 and 5)."""

    unrolling: Annotated[Unrolling, Param("how multipliers are distributed over kernels")] = (
        "heap_skip"
    )

    order: Annotated[
        OrderChoice,
        Param("order of the loops of all kernels; fastest tries the others by simulation"),
    ] = "fastest"
    """``reductions_outermost`` is the paper's order, and the default for a model with experts,
    where the fastest order depends on the routing of a run."""

    vectors: Annotated[
        Literal["tile", "narrow"] | Vectors,
        Param("FIFO elements: whole tiles, or the narrowest vectors that keep up"),
    ] = "tile"
    """A mapping gives rows and columns by name of an edge; the other edges are narrow."""

    fusion: Annotated[Fusion, Param("how kernels are grouped")] = "merge"

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
            "memory in which a load keeps data that is read again", "bytes", least=0,
            most=_MOST_BYTES, otherwise="256 KiB",
        ),
    ] = None  # fmt: skip

    packed: Annotated[bool, Param("store weights tile by tile off chip")] = True
    """They are stored in words of the memory port, so that loads are bursts."""

    folded: Annotated[bool, Param("let kernels share buffers where their orders agree")] = False
    """This applies to kernels with no other stream between them, which then need no FIFO."""

    sizing: Annotated[
        Sizing,
        Param(
            "source of the initial FIFO depths, which runs repair", formerly="fifo",
            of_depths=True,
        ),
    ] = "lp"  # fmt: skip

    max_slowdown: Annotated[
        float,
        Param(
            "largest slowdown of a run against unbounded FIFOs; 0.005 is 0.5 %", "fraction",
            least=0, most=1000, formerly="slowdown", of_depths=True,
        ),
    ] = 0.005  # fmt: skip

    shrink: Shrink = True


@dataclass(frozen=True, kw_only=True)
class Choices(SearchedChoices):
    """The options of a design.

    Raises
    ------
    ParameterError : a choice has the wrong type or is out of range; all such choices are listed.
    """

    tiles: Annotated[Tiles | None, Param("steps of single operators")] = None
    orders: Annotated[Orders | None, Param("loops of single operators, outermost first")] = None

    streamed: Annotated[
        Literal["inside", "outside"] | None,
        Param(
            "tokens pass as a stream, with heads in inner or outer loops of attention",
            otherwise="not",
        ),
    ] = None
    """Tiles and orders are then those of the pass ``stream_tokens``."""

    rows: Annotated[
        int | None, Param("tokens of a tile of a streamed design", otherwise="those of tile")
    ] = None

    network_lanes: Annotated[
        int | None,
        Param("multipliers of each product of the feed-forward network", otherwise="a share"),
    ] = None
    """The other operators share the rest of ``unroll``."""

    burst_bytes: Annotated[
        int | None,
        Param("bytes that a load of packed weights requests at a time", otherwise="4 KiB"),
    ] = None

    runs: Annotated[
        int, Param("largest number of runs for shrinking the FIFOs of a group", least=0)
    ] = 300
    """With 160 runs the FIFOs of TinyLlama's prefill take 29.9 MB, with 300 runs 1.0 MB; those of
    GPT-2 medium take the same with both."""

    effort: Annotated[
        int,
        Param("engine steps of the runs that shrink FIFOs and of further designs, in all", least=0),
    ] = 500_000_000
    """Half a minute of processor time on the machines on which stepsim is measured. What is not
    searched is in ``plan.choices["unsearched"]``."""

    predict: Annotated[
        bool, Param("report the cycles predicted by the model of stepping kernels")
    ] = True

    placed: Annotated[
        bool | None,
        Param(
            "choose memory kinds of buffers and dies of kernels",
            otherwise="if the machine states a device",
        ),
    ] = None  # fmt: skip

    guard: Annotated[bool, Param("with experts, size FIFOs so that no routing can deadlock")] = True

    fit: Annotated[
        bool,
        Param("try smaller groups, smaller tiles and fewer multipliers if a design does not fit"),
    ] = True

    def __post_init__(self) -> None:
        check_fields(self)
        problems = []
        if self.rows is not None and self.streamed is None:
            problems.append(("rows", "has an effect on streamed designs alone; give streamed too"))
        if self.streamed is not None:
            for name in ("tiles", "orders", "order"):
                if getattr(self, name) != getattr(Choices, name):
                    problems.append((name, "has no effect on streamed designs; leave it out"))
        if self.network_lanes is not None and self.unrolling != Choices.unrolling:
            problems.append(("unrolling", "has no effect with network_lanes; leave it out"))
        if self.burst_bytes is not None and not self.packed:
            problems.append(("burst_bytes", "has an effect on packed weights alone; leave it out"))
        if not self.shrink and not self.fit:
            for name in ("runs", "effort"):
                if getattr(self, name) != getattr(Choices, name):
                    problems.append(
                        (
                            name,
                            "limits shrinking and further designs, and both are off; leave it out",
                        )
                    )
        if problems:
            raise ParameterError(problems)

    def recorded(self, *, experts: bool) -> dict[str, Any]:
        """The choices that determine a design and are not None, by their key in a plan.

        The key is the name that a choice had when the format was defined.
        """
        without = {"runs", "effort", "predict", "placed", "fit"}
        without |= {"sizing", "shrink"} if experts else {"guard"}
        without |= set() if self.streamed is None else {"order"}
        return {
            field.param.formerly or name: value
            for name, field in fields_of(type(self)).items()
            if name not in without and (value := getattr(self, name)) is not None
        }


def group_param(otherwise: str) -> Param:
    """The parameter ``group`` of workloads whose programs are those of several groups."""
    return Param("number of the group to run, if there are several", otherwise=otherwise, least=0)
