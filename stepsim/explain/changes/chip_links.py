"""Candidate changes of a program on several chips: the links between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from stepsim.explain.changes.candidates import Change, option_text
from stepsim.simulation import ImageRun, Prepared

_FACTOR: Final = 2
_MOST_GIB_PER_S: Final = 1e9
"""Bandwidth of a link without limit, over which the largest tiles take no cycle."""


def chip_changes(prepared: Prepared, done: ImageRun) -> Iterator[Change]:
    """Faster links between chips, and links with less latency; nothing where nothing crossed."""
    loads, chips = prepared.loads(done), prepared.machine.chips
    if loads is None or chips is None or not loads.has_packets:
        return
    twice = _each(chips.gib_per_s, lambda rate: rate * _FACTOR)
    yield _of_links("twice the link bandwidth", "link", "gib_per_s", twice)
    free = _each(chips.gib_per_s, lambda rate: max(rate, _MOST_GIB_PER_S))
    yield _of_links("link bandwidth without limit", "link", "gib_per_s", free, buildable=False)
    if any(one.latency_ns for one in chips.dimensions):
        half = _each(chips.latency_ns, lambda latency: latency / _FACTOR)
        yield _of_links("half the latency between chips", "network_latency", "latency_ns", half)
        none = _each(chips.latency_ns, lambda latency: 0)
        yield _of_links(
            "no latency between chips", "network_latency", "latency_ns", none, buildable=False
        )


def _of_links(name: str, kind: str, key: str, value: Any, *, buildable: bool = True) -> Change:
    overrides = {f"chips.{key}": value}
    return Change(
        name, kind, apply=option_text(overrides), overrides=overrides, buildable=buildable
    )


def _each(value: Any, change: Callable[[float], float]) -> Any:
    """A value that holds for all dimensions, or one for each, with a change."""
    return [change(one) for one in value] if isinstance(value, tuple) else change(value)
