"""Service-level objectives: limits of latency, and the share of requests that must meet them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from stepsim.errors import ArgError, did_you_mean
from stepsim.shown import shown
from stepsim.typed import typed, typed_fields

LIMITS: Final = ("ttft", "tpot", "e2el")
"""Latencies that an SLO limits: time to first token, time per output token, end to end."""

_MILLISECONDS: Final = {"ms": 1.0, "s": 1000.0}
_NUMBER: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([a-zA-Zµ%]*)")
_GRAMMAR: Final = "such as ttft=1s,tpot=50ms,share=0.99"


@typed_fields
@dataclass(frozen=True, slots=True)
class Slo:
    """Limits that a request meets if each of its latencies is at most its limit.

    Attributes
    ----------
    ttft_ms, tpot_ms, e2el_ms : limits in ms; None: no limit. A request of one token has no time
        per output token and meets every limit of it.
    share : the share of requests that must meet all limits, above 0 and at most 1. It decides which
        rates are good enough; goodput counts requests whatever the share is.

    Raises
    ------
    ArgError : no limit at all, one that is not above 0, or a share out of range.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None
    share: float = 0.99

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, f"{name}_ms")
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ArgError(f"slo: {name} is {shown(value)} ms, expected a limit above 0")
        if not self.limits:
            raise ArgError(
                f"slo: there is no limit, expected at least one of {', '.join(LIMITS)}, {_GRAMMAR}"
            )
        if not 0 < self.share <= 1:
            raise ArgError(
                f"slo: share is {shown(self.share)}, expected the part of requests that must meet "
                "the limits, above 0 and at most 1"
            )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, in ms, by name."""
        values = ((name, getattr(self, f"{name}_ms")) for name in LIMITS)
        return {name: value for name, value in values if value is not None}

    def __str__(self) -> str:
        limits = [f"{name}={value:.12g}ms" for name, value in self.limits.items()]
        return ",".join([*limits, f"share={self.share:.12g}"])


@typed
def read_slo(text: str) -> Slo:
    """The SLO of a text such as ``ttft=1s,tpot=50ms,share=0.99``.

    Limits are numbers with a unit, ``ms`` or ``s``. ``share`` is a number without one, by default
    0.99.

    Raises
    ------
    ArgError : a limit without a unit, a name that is not known or that occurs twice, or a value out
        of range.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in (*LIMITS, "share"):
            raise ArgError(
                f"slo: {shown(name)} is not known, expected {', '.join(LIMITS)} or share, "
                f"{_GRAMMAR}{did_you_mean(name, (*LIMITS, 'share'))}"
            )
        if name in limits:
            raise ArgError(f"slo: {name} occurs twice in {shown(text)}; leave one of them out")
        found = _NUMBER.fullmatch(value)
        if not equals or found is None:
            raise ArgError(f"slo: {shown(part)} is not a name and a number, expected {_GRAMMAR}")
        number, unit = float(found[1]), found[2]
        limits[name] = number if name == "share" else number * _scale(name, value, unit)
        if name == "share" and unit:
            raise ArgError(
                f"slo: share is {shown(value)}, expected a number without a unit, such as 0.99"
            )
    return Slo(**{name if name == "share" else f"{name}_ms": limits[name] for name in limits})


def _scale(name: str, value: str, unit: str) -> float:
    """Milliseconds per unit of a limit."""
    if unit in _MILLISECONDS:
        return _MILLISECONDS[unit]
    if unit:
        raise ArgError(f"slo: {name}={value} is in {shown(unit)}, expected ms or s")
    number = float(value)
    raise ArgError(
        f"slo: {name}={value} has no unit; write {name}={value}s for "
        f"{number * 1000:.12g} ms, or {name}={value}ms"
    )
