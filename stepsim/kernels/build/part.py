"""Kernels that are a part of every engine, as what the compiler knows of them before it has any."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from stepsim.kernels.build.settings import is_jit_disabled

_DISABLED: Final = is_jit_disabled()


class Part:
    """A kernel of a unit and the state that is compiled once for all engines.

    An engine that calls it knows its name alone, until the code of both is put together, in
    :mod:`stepsim.kernels.build.parts`. Python that calls it runs the function as it is.

    Attributes
    ----------
    py_func : the function.
    symbol : the name of its code.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.symbol = f"stepsim_part.{name}"

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def __repr__(self) -> str:
        return f"<part {self.py_func.__module__}.{self.py_func.__qualname__}>"


PARTS: Final[dict[str, Part]] = {}
"""Every part by the name of its code."""


def part(function: Callable[..., Any], name: str) -> Any:
    """Compile a kernel of a unit and the state once for all engines; see :class:`Part`."""
    if _DISABLED:
        return function
    made = Part(function, name)
    if made.symbol in PARTS:
        raise ValueError(f"two parts of the engines are named {name!r}")
    PARTS[made.symbol] = made
    return made
