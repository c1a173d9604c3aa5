"""The option ``--ensemble`` of runs: the number of disturbed runs, their seed and bounds."""

from __future__ import annotations

from typing import Any

import stepsim.ensembles
from stepsim.errors import ArgError

_WHERE = "--ensemble:"


def disturbances(text: str | None, level: Any) -> dict[str, Any] | None:
    """The arguments of an ensemble, as ``32,seed=7,fifo.depth=0:2`` gives them; None without it.

    Parameters
    ----------
    level : the room that simulates, which has ``DISTURBANCES``.

    Raises
    ------
    ArgError : a part is not a number of runs, a seed or a bound, is given twice, or is unknown at
        this level.
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
    for name, values in (*single.items(), *numbers.items()):
        if not 1 <= len(values) <= (1 if name in single else 2):
            raise _wrong(text)
    bounds = {name: one[0] if len(one) == 1 else tuple(one) for name, one in numbers.items()}
    found: dict[str, Any] = {name: one[0] for name, one in single.items()} | {
        "bounds": bounds or None
    }
    stepsim.ensembles.check_members(_WHERE, level.DISTURBANCES, **found)
    return found


def check_effect(disturbed: dict[str, Any], level: Any, what: Any) -> None:
    """Check, before the nominal run, that every disturbance has an effect on what runs.

    Raises
    ------
    ArgError : one has none, or nothing is left to disturb.
    """
    stepsim.ensembles.bounds_of(level.DISTURBANCES, disturbed["bounds"], f"{_WHERE} bounds", what)


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
