"""The events of a recorded run over time: tokens, buffers, off-chip accesses, waits. Times in
cycles.

All arrays are sorted by their owner, a FIFO or a unit, and then by time.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import frozen

WAIT: Final = np.dtype(
    [
        ("unit", np.int32),
        ("cause", np.int8),  # index into ``Events.causes``
        ("fifo", np.int32),  # -1 for none
        ("begin", np.int64),
        ("end", np.int64),
    ],
    align=True,
)
"""A wait: the unit's clock stopped at ``begin`` and resumed at ``end``."""

ACCESS: Final = np.dtype(
    [
        ("unit", np.int32),
        ("begin", np.int64),  # issued
        ("end", np.int64),  # last response
        ("requests", np.int64),
        ("nbytes", np.int64),  # payload
    ],
    align=True,
)
"""An access to off-chip memory."""

BUFFERED: Final = np.dtype(
    [
        ("unit", np.int32),  # that filled it
        ("begin", np.int64),  # its first tile is stored
        ("end", np.int64),  # its last reader has released it
        ("nbytes", np.int64),
    ]
)
"""A buffer in on-chip memory."""


PASSED: Final = np.dtype(
    [
        ("port", np.int32),  # index into ``Events.ports``
        ("fifo", np.int32),  # whose tokens they are
        ("begin", np.int64),
        ("end", np.int64),
    ],
    align=True,
)
"""Flits that passed a port of the network on chip one after the other, one a cycle; or a message
that a link between chips sent in that time."""


def records_by(owner: str, kind: np.dtype[np.void], **columns: NDArray[Any]) -> NDArray[np.void]:
    """Records of a kind from their columns, sorted by ``owner``; records with the same owner keep
    their order."""
    made = np.zeros(len(columns[owner]), kind)
    for name, column in columns.items():
        made[name] = column
    return made[np.argsort(made[owner], kind="stable")]


@frozen
class Memory:
    """The off-chip memory of the machine.

    Attributes
    ----------
    request_bytes : size of one request.
    per_cycle : most requests that all channels together serve per cycle; None where every
        operator has its own memory.
    latency : cycles that an access takes in addition to those of its requests.
    bundle : requests that each unit issues per cycle.
    window : requests of an access after which each unit, alone, waits for the response of the first
        one; far more than there are without a bound on the requests under way.
    turn : cycles from a request to the first one that may take its place under such a bound.
    """

    request_bytes: int
    per_cycle: float | None
    latency: int
    bundle: NDArray[np.int64]
    window: NDArray[np.int64]
    turn: int

    def issuing(self, units: NDArray[Any], requests: NDArray[Any]) -> NDArray[Any]:
        """Cycles in which units, by number, issue accesses of so many requests when they are alone.

        An access without a request of its own takes none.
        """
        last = requests - 1
        window = self.window[units]
        cycles = last // window * self.turn + last % window // self.bundle[units] + 1
        return np.where(requests > 0, cycles, 0)


@frozen(eq=False)
class Events:
    """The events of a recorded run.

    Attributes
    ----------
    cycles : length of the run.
    units, operators : names of the units, and their operators.
    final_clocks, flops : of every unit.
    fifos : names.
    producers, consumers : unit of every FIFO.
    depths : tokens that each FIFO holds; 0 when it is unbounded.
    first : index of the first token of each FIFO in the arrays of tokens, then their length.
    sent : when a token was sent; it takes a slot from that cycle on.
    seen : its stamp: when its consumer can see it.
    freed : when its slot is free again; the length of the run if it never is.
    taken : whether it was received.
    nbytes : its payload: rows x columns x element size of a tile, a byte for each flag of a
        selector, the sum of the members of a tuple; none for a reference to a buffer.
    buffers : records of `BUFFERED`.
    working : bytes of tiles that each unit works on, as the symbolic requirement counts them, at
        the largest size that the run had; -1 where that is not known.
    started : when each unit began the work on its first token or its first access.
    memory : the off-chip memory.
    accesses : records of `ACCESS`.
    waits : records of `WAIT`, by unit and time, without overlap.
    causes : names of the causes of waits.
    ports : names of the links of the network on chip, and of the ports by which places send and
        receive; for a program on several chips, of the links between them that routes take.
    passed : records of `PASSED`, by port and time, without overlap.
    chips : chip of every unit, for a program on several.
    """

    cycles: int
    units: tuple[str, ...]
    operators: tuple[str, ...]
    final_clocks: NDArray[np.int64]
    flops: NDArray[np.int64]
    fifos: tuple[str, ...]
    producers: NDArray[np.int32]
    consumers: NDArray[np.int32]
    depths: NDArray[np.int64]
    first: NDArray[np.int64]
    sent: NDArray[np.int64]
    seen: NDArray[np.int64]
    freed: NDArray[np.int64]
    taken: NDArray[np.bool_]
    nbytes: NDArray[np.int64]
    buffers: NDArray[np.void]
    working: NDArray[np.int64]
    started: NDArray[np.int64]
    memory: Memory
    accesses: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, ACCESS))
    waits: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, WAIT))
    causes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    passed: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, PASSED))
    chips: tuple[int, ...] = ()

    def work(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Unit, begin and end of all work, which is the time between the waits of a unit."""
        count, unit = len(self.units), self.waits["unit"].astype(np.int64)
        starts = np.searchsorted(unit, np.arange(count))
        owner = np.insert(unit, starts, np.arange(count))
        begin = np.insert(self.waits["end"], starts, 0)
        # It ends where the next wait of the unit begins, or with the unit.
        end = np.roll(np.insert(self.waits["begin"], starts, 0), -1)
        last = np.searchsorted(owner, np.arange(count), side="right") - 1
        end[last] = self.final_clocks
        there = end > begin
        return owner[there], begin[there], end[there]

    def tokens(self, fifo: int) -> slice:
        """The range of the tokens of a FIFO, in the order sent."""
        return slice(int(self.first[fifo]), int(self.first[fifo + 1]))
