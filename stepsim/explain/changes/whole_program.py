"""Candidate changes of numbers that hold for a whole program: requests per cycle, FIFO depths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepsim.explain.changes.candidates import Change, deepen_text
from stepsim.graph import FIFO_DEPTH, PAR_DISPATCH
from stepsim.lowering import depths_of, dispatch_widths
from stepsim.simulation import ImageRun, Prepared

WHOLE: Final = "the program"
"""What these changes are of."""

_STEPS: Final = (4, 16, 64)
"""Factors of the numbers, which have no price: a larger one is only better if it gains more."""


def whole_program(prepared: Prepared, done: ImageRun) -> Iterator[Change]:
    """Every load and store with more requests per cycle, and every FIFO deeper, in steps.

    Parameters
    ----------
    done : the run. Nothing is changed that it does not use: no dispatch where nothing issues two
        requests, no depths where no unit waited for room.
    """
    yield from _dispatch(done)
    yield from _depths(prepared, done)


def _dispatch(done: ImageRun) -> Iterator[Change]:
    names, requests = done.image.unit_names, done.execution.units["requests"]
    widths = dispatch_widths(done.image)
    most = max((int(requests[unit]) for unit in widths), default=0)
    present = max(widths.values(), default=0)
    for step in _STEPS:
        width = step * present
        if width > PAR_DISPATCH.high or step * present >= _STEPS[0] * most:
            return
        wider = {names[unit]: width for unit in widths}
        yield Change(
            f"par_dispatch {width} of {WHOLE}", "hbm_port", WHOLE, tuple(wider),
            f"par_dispatch={width} of every load and store", par_dispatch=wider,
        )  # fmt: skip


def _depths(prepared: Prepared, done: ImageRun) -> Iterator[Change]:
    count = len(prepared.wiring.fifos)  # without those of carriers
    if not done.execution.channels["wait_out"][:count].any():
        return
    names = done.image.channel_names[:count]
    depths = dict(zip(names, depths_of(done.image)[:count], strict=True))
    for step in _STEPS:
        depth = step * prepared.fifo_depth
        if depth > FIFO_DEPTH.high:
            return
        deeper = {name: depth for name, own in depths.items() if own is not None and own < depth}
        if deeper:
            yield Change(
                f"FIFO depth {depth:,} of {WHOLE}", "fifo_depth", WHOLE, tuple(deeper),
                deepen_text("all FIFOs", depth), fifo_depths=deeper,
            )  # fmt: skip
