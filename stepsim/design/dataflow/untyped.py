"""Streams whose tokens a routing decides: untyped, and bounded by a declared maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from stepsim.errors import ITensorError
from stepsim.itensor import AffineMap, Converter, ITensor


@dataclass(frozen=True, repr=False)
class Untyped(ITensor):
    """A stream of which only tile, scalar type and most tokens are known before a run.

    The parts of an itensor are those with as many rows as are declared at most: the outermost loop
    turns once for each tile of rows, at most ``trips[0]`` times. So sizes (tokens, bytes, depths)
    are bounds. Which tokens come is not known, so there is no order to compare: whatever asks for
    one (``normal_form``, ``matches``, ``converter``, ``offsets``) gets an ITensorError.

    Attributes
    ----------
    routing : name of the routing that decides.
    expert : owner of the rows; None for the rows of all experts, one stream each.
    """

    routing: str = ""
    expert: int | None = None

    @classmethod
    def rows(
        cls, shape: Sequence[int], step: int, dtype: str, routing: str, expert: int | None
    ) -> Untyped:
        """Whole rows, ``step`` at a time, of at most ``shape[-2]``; axes before are experts."""
        axes = len(shape)
        trips = (*shape[:-2], shape[-2] // step)
        element = (*(1,) * (axes - 2), step, shape[-1])
        results = tuple(
            (tuple(int(axis == loop) for loop in range(axes - 1)), 0) for axis in range(axes)
        )
        steps = (*(1,) * (axes - 2), step)
        nest = AffineMap(results, axes - 1)
        return cls(element, trips, steps, nest, dtype, 1, routing, expert)

    @property
    def each(self) -> ITensor:
        """What comes for one turn of the outermost loop, which is typed."""
        results = tuple((coefficients[1:], const) for coefficients, const in self.map.results)
        nest = AffineMap(results, len(self.trips) - 1)
        return ITensor(self.element, self.trips[1:], self.steps[1:], nest, self.dtype)

    def of_expert(self, expert: int | None) -> Untyped:
        """Of a stream for each expert, that of one."""
        shape = (self.trips[-1] * self.steps[-1], self.element[-1])
        return Untyped.rows(shape, self.element[-2], self.dtype, self.routing, expert)

    def normal_form(self) -> NoReturn:
        """Raise ITensorError: there is no order."""
        raise ITensorError(
            f"{self}: '{self.routing}' decides which tokens it carries, so its order cannot be "
            "compared with another stream's; dispatch makes such streams and combine ends them"
        )

    def offsets(self) -> Any:
        """Raise ITensorError: offsets are unknown before a run."""
        return self.normal_form()

    def offset_of(self, token: int) -> Any:
        """Raise ITensorError: the offset is unknown before a run."""
        return self.normal_form()

    def __str__(self) -> str:
        sides = "x".join(map(str, self.element))
        whose = "each expert" if self.expert is None else f"expert {self.expert}"
        return (
            f"untyped<{sides}x{self.dtype}, at most {self.tokens} tokens, "
            f"{whose} of '{self.routing}'>"
        )

    def __repr__(self) -> str:
        return str(self)


def fifo_between(source: Untyped, target: Untyped) -> Converter:
    """The FIFO that joins two ends of an untyped stream; no converter is ever inferred.

    Raises
    ------
    ITensorError : the ends differ in tile, scalar type, routing, expert or maximum.
    """

    def end(x: Untyped) -> tuple[Any, ...]:
        return x.element[-2:], x.dtype, x.routing, x.expert, x.tokens

    if end(source) != end(target):
        raise ITensorError(
            f"{source} cannot feed {target}: untyped streams pass in a FIFO only, so both ends "
            "need the same tile, scalar type, expert and maximum; tile both operators the same way"
        )
    return Converter(source, target, "fifo", source.element, (), (), ())
