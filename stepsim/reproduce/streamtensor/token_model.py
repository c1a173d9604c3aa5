"""Occupancy of one FIFO: the printed equations, and an exact count of every push and pop.

The source pushes token ``k`` at ``first + k * source_interval``. The sink pops token ``j`` when it
is due (``delay + j * sink_interval``), when it can be seen (``hop`` cycles after its push) and no
earlier than ``sink_interval`` after the pop before. A token takes its slot when it is pushed; a
push and a pop in one cycle cancel. Source: the equations that StreamTensor prints, with the
correction that ``hop`` is part of the delay only.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import CompileError
from stepsim.sizing import Cycles, most_tokens


@dataclass(frozen=True, slots=True)
class LinkTrace:
    """The events on an unbounded FIFO, token by token; times in cycles.

    Attributes
    ----------
    pushes, pops : by token.
    peak : most tokens at the end of a cycle.
    peak_slot_reuse_next_cycle : most tokens if a slot is free only in the cycle after its pop.
    first_peak_cycle : when the peak was first reached.
    starved_cycles : cycles in which a pop was due but no token was visible.
    """

    pushes: NDArray[np.int64]
    pops: NDArray[np.int64]
    peak: int
    peak_slot_reuse_next_cycle: int
    first_peak_cycle: int | None
    starved_cycles: int


@dataclass(frozen=True, slots=True)
class Link:
    """A source, a FIFO and a sink.

    Attributes
    ----------
    tokens : of one run, ``T``.
    first : cycle of the first push, ``D`` of the source.
    source_interval, sink_interval : cycles between tokens, ``II``.
    delay : start of the sink, in cycles after the start of the source.
    hop : cycles from a push until the sink can see the token.

    Raises
    ------
    CompileError
        There is no token, or a time is negative.
    """

    tokens: int
    first: Cycles
    source_interval: Cycles
    sink_interval: Cycles
    delay: Cycles
    hop: int = 1

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise CompileError(f"a FIFO carries 1 token or more in a run, found {self.tokens}")
        if min(self.first, self.delay, self.hop) < 0:
            raise CompileError(
                "first, delay and hop of a FIFO are cycles from 0, "
                f"found {self.first}, {self.delay} and {self.hop}"
            )
        if min(self.source_interval, self.sink_interval) <= 0:
            raise CompileError(
                "intervals of a FIFO are more than 0 cycles, "
                f"found {self.source_interval} and {self.sink_interval}"
            )

    @property
    def last(self) -> Cycles:
        """Cycle of the last push, ``L``."""
        return self.first + (self.tokens - 1) * self.source_interval

    @property
    def effective_delay(self) -> Cycles:
        """Cycle of the first pop: the sink cannot take a token before it is visible."""
        return max(self.delay, self.first + self.hop)

    @property
    def eq1(self) -> int:
        """Printed equation (1), for a sink that is slower than the source: exact or one more."""
        taken = floor(Fraction(self.last - self.effective_delay) / self.sink_interval)
        return min(self.tokens, self.tokens - taken)

    @property
    def eq2(self) -> int:
        """Printed equation (2), for a sink that is at least as fast as the source."""
        waiting = ceil(Fraction(self.effective_delay - self.first) / self.source_interval)
        return min(self.tokens, waiting)

    @property
    def applies(self) -> str:
        """The printed equation for these rates, ``"eq1"`` or ``"eq2"``."""
        return "eq1" if self.source_interval < self.sink_interval else "eq2"

    @property
    def printed(self) -> int:
        """The result of the printed equations."""
        return self.eq1 if self.applies == "eq1" else self.eq2

    @property
    def peak(self) -> int:
        """The exact peak number of tokens in the FIFO."""
        return most_tokens(
            self.tokens, self.first, self.source_interval, self.sink_interval, self.delay, self.hop
        )

    @property
    def depth(self) -> int:
        """Slots with which the source never waits; at least one."""
        return max(1, self.peak)

    def trace(self) -> LinkTrace:
        """Every push and pop.

        Raises
        ------
        CompileError
            A time is not a whole number of cycles.
        """
        times = (self.first, self.source_interval, self.sink_interval, self.delay)
        if any(time != int(time) for time in times):
            raise CompileError(f"tokens move in whole cycles, found {', '.join(map(str, times))}")
        first, source, sink, delay = map(int, times)
        tokens = np.arange(self.tokens, dtype=np.int64)
        pushes = first + tokens * source
        # pop[j] - j * sink never decreases: it is the latest push that held the sink up so far.
        pops = np.maximum.accumulate(np.maximum(delay, pushes + self.hop - tokens * sink))
        pops += tokens * sink
        due = np.concatenate(([delay], pops[:-1] + sink))
        held = tokens + 1 - np.searchsorted(pops, pushes, side="right")
        peak = max(0, int(held.max()))
        return LinkTrace(
            pushes=pushes,
            pops=pops,
            peak=peak,
            peak_slot_reuse_next_cycle=int(
                (tokens + 1 - np.searchsorted(pops, pushes, side="left")).max()
            ),
            first_peak_cycle=int(pushes[held.argmax()]) if peak else None,
            starved_cycles=int((pops - due).sum()),
        )
