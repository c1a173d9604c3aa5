"""What a function of tiles is to the engine: declared beside its kernels.

A kernel fills the result ``y`` (shape, valid rows, element width) and returns the FLOPs, or the
cycles of a function of constant cycles, or -1 after it has marked the unit as failed. Padding rows
are computed like valid ones. ``its`` are the parameters of the unit by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stepsim.kernels.jit import inlined

__all__ = ["USES", "TileFunction", "declared_functions"]

USES: Final[Mapping[str, str]] = {
    "unary": "un, its, x, y",
    "binary": "un, its, x1, x2, y",
    "accumulate": "un, its, x, state, y",
    "map_accumulate": "un, its, x1, x2, state, y",
}
"""How a function is used, and the arguments of its kernel. ``state`` is the accumulator; a kernel
of an accumulation sets ``y.rd`` too."""

_DECLARED: dict[str, TileFunction] = {}


@dataclass(frozen=True)
class TileFunction:
    """A function by the name that units give it.

    Attributes
    ----------
    name : unique.
    constant_cycles : its kernels return cycles; the compute bandwidth does not count.
    kernels : compiled kernel by use.
    """

    name: str
    constant_cycles: bool = False
    kernels: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.name in _DECLARED:
            raise ValueError(f"two functions are named {self.name!r}")
        _DECLARED[self.name] = self

    def use(self, use: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator of the kernel for one use; the function itself stays as it is."""
        if use not in USES:
            raise ValueError(f"{self.name}: there is no use {use!r}; known are {', '.join(USES)}")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.kernels[use] = inlined(function)
            return function

        return decorate


def declared_functions() -> Mapping[str, TileFunction]:
    """Every function declared so far, by name."""
    return _DECLARED
