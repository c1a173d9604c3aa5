"""The options of disturbed runs: ``--ensemble``, ``--ensemble-seed`` and ``--disturb``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.cli.runs.execution import RunOptions

__all__ = ["disturbances"]


def disturbances(options: RunOptions) -> dict[str, Any] | None:
    """The arguments of an ensemble that were given; None where none is wanted.

    Raises
    ------
    ArgError : a bound is none, or there are bounds or a seed for no ensemble.
    """
    if options.ensemble is None:
        if options.ensemble_seed is not None or options.disturb:
            given = "--disturb" if options.disturb else "--ensemble-seed"
            raise ArgError(f"{given} is of an ensemble; give --ensemble N as well")
        return None
    bounds: dict[str, Any] = {}
    for text in options.disturb or ():
        name, _, value = text.partition("=")
        try:
            numbers = [int(part) for part in value.split(":")]
        except ValueError:
            numbers = []
        if not name or name in bounds or not 1 <= len(numbers) <= 2:
            raise ArgError(
                f"--disturb: expected each name once with its bounds, as hbm.latency=0:3 or "
                f"fifo.depth=0, found '{text}'"
            )
        bounds[name] = numbers[0] if len(numbers) == 1 else tuple(numbers)
    seed = 0 if options.ensemble_seed is None else options.ensemble_seed
    return {"runs": options.ensemble, "seed": seed, "bounds": bounds or None}
