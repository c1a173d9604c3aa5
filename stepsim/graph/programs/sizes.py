"""Knowledge of sizes in a program: their symbols, counts and lengths, and equal dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from stepsim.arguments import flag, text_of
from stepsim.errors import ArgError, DimError
from stepsim.graph.handle import Counts
from stepsim.graph.operator import Operator
from stepsim.graph.programs.equalities import Assumption, Equalities
from stepsim.graph.programs.source_line import source_line
from stepsim.graph.sizes.dims import Dim, DimLike, Namer
from stepsim.graph.sizes.formula import Formula, light
from stepsim.graph.sizes.sizes import Expression, Size
from stepsim.graph.stream import Stream

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program


class ProgramSizes:
    """The part of a program that names sizes and compares them.

    Attributes
    ----------
    name : name of the program.
    namer : makes symbols, and remembers the origin of each.
    routings : routing tables, whose indices are given by bindings.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.namer = Namer()
        self.routings: list[Any] = []
        self._equalities = Equalities()
        self._counts: dict[tuple[int, int], Counts] = {}
        self._flops: dict[int, Size] = {}
        self._lengths: dict[tuple[int, int], Dim] = {}

    def counts_of(self, selector: Stream) -> Counts:
        """Counts by output for partitions driven by ``selector``; made on first use."""
        if selector.counts is not None:
            return selector.counts
        if selector.key not in self._counts:
            title = selector.producer.title(selector.output)
            self._counts[selector.key] = Counts(
                cast("Program", self), "c", f"chunks selected by {title}"
            )
        return self._counts[selector.key]

    def length_of(
        self, lengths: Stream, *, total: int | None = None, bound: int | None = None
    ) -> Dim:
        """The ragged dim whose sizes are the values of ``lengths``; made on first use.

        ``total`` and ``bound`` are the sum and the largest of the values, if known.
        """
        if lengths.key not in self._lengths:
            why = f"values of {lengths.producer.title(lengths.output)}"
            self._lengths[lengths.key] = self.namer.ragged(
                "len", why, total=total, bound=bound, static=total is not None
            )
        return self._lengths[lengths.key]

    def flops_of(self, operator: Operator) -> Size:
        """The FLOPs of an operator that do not follow from sums of sizes: a symbol, made on first
        use."""
        if operator.id not in self._flops:
            why = f"sum of the FLOPs of {operator.title()}"
            self._flops[operator.id] = self.namer.symbol(f"flops{operator.id}", why)
        return self._flops[operator.id]

    def lengths(self) -> Mapping[tuple[int, int], Dim]:
        """Ragged dims by the stream that holds their sizes."""
        return self._lengths

    def counts(self) -> Mapping[tuple[int, int], Counts]:
        """Counts by output that partitions made, by the stream of their selectors."""
        return self._counts

    def equalities(self) -> Mapping[Size, Size]:
        """Expressions unified by the user, left to right."""
        return self._equalities.unified

    def dim(self, name: str = "d") -> Dim:
        """A new dynamic-regular dim owned by the program."""
        where = source_line()
        return Dim(self.namer.symbol(self._symbol_name(name), f"dim made at {where}"))

    def ragged(self, name: str = "len", *, static: bool = False) -> Dim:
        """A new ragged dim owned by the program."""
        where = source_line()
        static = flag(f"program '{self.name}', ragged: static", static)
        name = self._symbol_name(name)
        return self.namer.ragged(name, f"ragged dim made at {where}", static=static)

    def _symbol_name(self, name: object) -> str:
        text = text_of(f"program '{self.name}': the name of a dim", name)
        if not text:
            raise ArgError(f"program '{self.name}': the name of a dim must not be empty")
        return text

    def assume_equal(self, left: DimLike, right: DimLike) -> None:
        """State that two dims are equal; a run checks it."""
        a, b = Dim.of(left), Dim.of(right)
        verdict = self.compare(a, b)
        if verdict is False:
            raise DimError(
                f"assume_equal: {a} and {b} are different. Only sizes that are not already known "
                "to differ can be assumed equal"
            )
        self.record_assumption(f"{a} == {b}", (a,), (b,))

    def record_assumption(self, text: str, left: Sequence[Dim], right: Sequence[Dim]) -> None:
        """Unify dims pairwise."""
        self._equalities.state(text, left, right, source_line())

    @property
    def assumptions(self) -> list[Assumption]:
        """Stated equalities that do not follow from the rest; a run checks them."""
        return self._equalities.stated

    def compare(self, a: Dim, b: Dim) -> bool | None:
        """True: proved equal, False: proved different, None: unknown."""
        return self._equalities.compare(a, b)

    def know_all(self, other: Program) -> None:
        """Share the routings of another program, and copy its known equalities."""
        self.routings = list(other.routings)
        self._equalities = other._equalities.copy()

    def know_alike(self, stream: Stream, other: Program, old: Stream) -> None:
        """Share counts by output and lengths with a stream of another program."""
        if old.key in other._counts:
            self._counts[stream.key] = other._counts[old.key]
        if old.key in other._lengths:
            self._lengths[stream.key] = other._lengths[old.key]

    def provenance(self, symbol: Expression | Size) -> str:
        """The origin of a symbol of this program."""
        size = light(symbol)
        found = self.namer.provenance.get(size) if isinstance(size, Formula) else None
        return found or "not a symbol of this program"
