"""Standard functions by name; what they are is no matter here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FUNCTIONS: dict[str, Any] = {}
"""Functions that take no argument to be made."""

FAMILIES: dict[str, Callable[..., Any]] = {}
"""What makes functions of some arguments."""


def by_name(name: str, arguments: tuple[Any, ...]) -> Any:
    """A standard function by its name and what it was made with."""
    return FAMILIES[name](*arguments) if arguments else FUNCTIONS[name]
