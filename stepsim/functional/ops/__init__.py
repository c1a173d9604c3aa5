"""Evaluators by operator family; importing the package registers them."""

from stepsim.functional.ops import (  # noqa: F401
    flat_map,
    higher_order,
    offchip,
    onchip,
    routing,
    shape,
    sources,
)

__all__: list[str] = []
