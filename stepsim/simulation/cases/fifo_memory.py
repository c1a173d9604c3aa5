"""On-chip memory of the FIFOs of a program: depth times size of a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from stepsim.errors import ArgError
from stepsim.graph import Size, number_of, slot_bytes, substitution
from stepsim.simulation.programs.prepared import Prepared


class FifoMemory:
    """Bytes of all FIFOs of a prepared program, by their depths and the types of their streams.

    Attributes
    ----------
    prepared : the program with its depths.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self._slots: Counter[Size] | None = Counter()
        fifos = prepared.wiring.fifos
        for fifo, depth in zip(fifos, prepared.depths, strict=True):
            if depth is None:
                self._slots = None
                return
            self._slots[slot_bytes(fifo.stream.type)] += depth
        self._stated = sum(size * n for size, n in self._slots.items() if isinstance(size, int))
        self._open = {size: n for size, n in self._slots.items() if not isinstance(size, int)}

    def of(self, symbols: Callable[[], Mapping[Any, Any]]) -> int | None:
        """The bytes of runs with these values of the program's symbols.

        None where a FIFO is unbounded, or the size of a token has no value. ``symbols`` is called
        only where sizes depend on them.
        """
        if self._slots is None:
            return None
        if not self._open:
            return self._stated
        try:
            table = substitution(self.prepared.program, symbols())
            return self._stated + sum(
                number_of(size, table) * slots for size, slots in self._open.items()
            )
        except ArgError:
            return None
