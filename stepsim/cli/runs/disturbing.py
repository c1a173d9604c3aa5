"""The option ``--ensemble`` of runs: the number of disturbed runs, their seed and bounds."""

from __future__ import annotations

from typing import Any

from stepsim.errors import ArgError


def disturbances(text: str | None) -> dict[str, Any] | None:
    """The arguments of an ensemble, as ``32,seed=7,fifo.depth=0:2`` gives them; None without it.

    Raises
    ------
    ArgError : a part is not a number of runs, a seed or a bound, or is given twice.
    """
    if text is None:
        return None
    first, *parts = (part.strip() for part in text.split(","))
    numbers = {"runs": _numbers(first)}
    for part in parts:
        name, _, value = part.partition("=")
        if not name or name in numbers:
            raise _wrong(part)
        numbers[name] = _numbers(value)
    single = {name: numbers.pop(name, [0]) for name in ("runs", "seed")}
    for name, found in (*single.items(), *numbers.items()):
        if not 1 <= len(found) <= (1 if name in single else 2):
            raise _wrong(text)
    bounds = {name: one[0] if len(one) == 1 else tuple(one) for name, one in numbers.items()}
    return {name: one[0] for name, one in single.items()} | {"bounds": bounds or None}


def _numbers(text: str) -> list[int]:
    """``0:2`` as numbers; empty if a part is not a number."""
    try:
        return [int(part) for part in text.split(":")]
    except ValueError:
        return []


def _wrong(found: str) -> ArgError:
    return ArgError(
        "--ensemble: expected the number of runs, then the seed and each disturbance once with its "
        f"bounds, as in 32,seed=7,hbm.latency=0:3,fifo.depth=0; found '{found}'"
    )
