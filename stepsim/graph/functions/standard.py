"""The table of standard functions by name, and how they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial, wraps
from typing import Any, ParamSpec

from stepsim.arguments import shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.graph.functions.describe import completed, described
from stepsim.graph.functions.function import Function, Rule
from stepsim.graph.functions.polynomial import ZERO, Polynomial
from stepsim.graph.functions.shape import Shape
from stepsim.graph.functions.table import FAMILIES, FUNCTIONS
from stepsim.graph.sizes.limits import FLOP_WEIGHT
from stepsim.graph.types import DType

PUBLISHED = "As the public simulator of 2026 counts."
WHOLE = "Of whole numbers it makes whole numbers, in a cycle."
SAME_AS_PUBLISHED = "A choice of stepsim, as nothing is published"

P = ParamSpec("P")

_WORKS: dict[str, Polynomial] = {}


def weights_of(where: str, weights: object) -> Mapping[str, int]:
    """FLOP weights by name of a function, checked; ArgError for anything else."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise ArgError(f"{where} must be a dict of names and ints, found {shown(weights)}")
    found: dict[str, int] = {}
    for name, weight in weights.items():
        if name not in _WORKS:
            near = did_you_mean(name, _WORKS)
            raise ArgError(f"{where}: there is no function st.fn.{shown(name, str)}{near}")
        if not _WORKS[name]:
            raise ArgError(f"{where}: {name} counts no FLOPs and has no weight; leave it out")
        found[name] = FLOP_WEIGHT.checked(f"{where}[{name!r}]", weight)
    return found


def standard(
    name: str,
    shape: str | Shape,
    values: Callable[..., Any] | None,
    summary: str,
    *,
    weight: int = 0,
    work: Polynomial | None = None,
    cycles: int = 0,
    text: str = "",
    flops: str = PUBLISHED,
    spelling: str | None = "",
    dtype: DType | int = 0,
    valid: Rule | None = None,
    arguments: tuple[Any, ...] = (),
    **rules: Any,
) -> Function:
    """Make a standard function and enter it into the table.

    ``weight`` FLOPs are counted per unit of ``work``, usually each scalar of the tile.
    """
    parsed = shape if isinstance(shape, Shape) else Shape.parse(name, shape)
    area = Polynomial.of("m", "n") if work is None else work
    made = Function(
        name, parsed, area.scaled(weight), Polynomial.of(times=cycles), values, dtypes=(dtype,),
        valid=() if valid is None else (valid,), arguments=arguments, standard=True,
        work=area if weight else ZERO, **rules,
    )  # fmt: skip
    example = f"st.fn.{made}" if spelling == "" else spelling
    # Into the one that is made, as a second one would take as long to make.
    object.__setattr__(made, "doc", partial(described, made, summary, text, flops, example))
    _WORKS[name] = made.work
    if not arguments:
        FUNCTIONS[name] = made
    return made


def family(*sample: Any) -> Callable[[Callable[P, Function]], Callable[P, Function]]:
    """Mark what makes functions: it makes the same one for the same arguments.

    One made with ``sample`` says what FLOP weights multiply, and completes the docstring.
    """

    def enter(maker: Callable[P, Function]) -> Callable[P, Function]:
        kept = lru_cache(maxsize=1 << 10)(maker)

        @wraps(maker)
        def made(*args: P.args, **kwargs: P.kwargs) -> Function:
            try:
                return kept(*args, **kwargs)  # type: ignore[arg-type]
            except TypeError:
                # What cannot be a key of the cache is no argument either.
                return maker(*args, **kwargs)

        made.__name__ = maker.__name__.rstrip("_")
        FAMILIES[made.__name__] = made
        first = made(*sample)  # type: ignore[call-arg]
        made.__doc__ = completed(maker.__doc__, first.__doc__ or "")
        return made

    return enter


def weighed(fn: Function, weights: Mapping[str, int]) -> Function:
    """The function with the FLOP weight that a program gives it."""
    if not fn.standard or fn.name not in weights:
        return fn
    return _weighted(fn, weights[fn.name])


@lru_cache(maxsize=1 << 10)
def _weighted(fn: Function, weight: int) -> Function:
    return fn.weighted(weight)
