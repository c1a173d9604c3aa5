"""Clocks: when the next step begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Decides when the next step begins. Times are in ns after the start of the service."""

    def first(self, arrival_ns: int) -> int:
        """When the service looks for requests first; the first one arrives at ``arrival_ns``."""
        ...

    def after_step(self, end_ns: int) -> int:
        """When the next step can begin after one that ends at ``end_ns``."""
        ...

    def after_idle(self, now_ns: int, arrival_ns: int) -> int:
        """When an idle service, which looked for work at ``now_ns``, finds the next arrival."""
        ...


@dataclass(frozen=True, slots=True)
class JumpingClock:
    """Steps follow each other without a gap but ``host_ns``; idle time jumps to the next arrival.

    Attributes
    ----------
    host_ns : time of the host from the end of a step to the start of the next.
    """

    host_ns: int = 0

    def first(self, arrival_ns: int) -> int:
        return arrival_ns

    def after_step(self, end_ns: int) -> int:
        return end_ns + self.host_ns

    def after_idle(self, now_ns: int, arrival_ns: int) -> int:
        return max(now_ns, arrival_ns)


@dataclass(frozen=True, slots=True)
class TickingClock:
    """The clock of LLMServingSim with one device: an idle service looks for work every tick.

    Attributes
    ----------
    tick_ns : time between looks of an idle service.
    log_ns : latest time of the first look.
    """

    tick_ns: int = 1_000_000
    log_ns: int = 1_000_000_000

    def first(self, arrival_ns: int) -> int:
        return min(max(1, arrival_ns), self.log_ns)

    def after_step(self, end_ns: int) -> int:
        return end_ns

    def after_idle(self, now_ns: int, arrival_ns: int) -> int:
        missing = max(0, arrival_ns - now_ns)
        return now_ns + -(-missing // self.tick_ns) * self.tick_ns
