"""Working memory of operators, without buffers, at the sizes of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import frozen
from stepsim.graph import Accounting, Buffer, ElementType, Formula, Size, Tile, Wiring, number_of


@frozen
class _AsRun(Accounting):
    """Counts as `executed`, but tiles at the largest size that a run had, and no buffers."""

    largest: Mapping[int, int]
    """Bytes of the largest element, by the identity of its type."""

    def type_bytes(self, element: ElementType) -> Size:
        if isinstance(element, Buffer):
            return 0
        if isinstance(element, Tile) and not element.is_static and id(element) in self.largest:
            return self.largest[id(element)]
        return Accounting.type_bytes(self, element)


def working_bytes(
    wiring: Wiring,
    largest: NDArray[np.int64],
    fired: NDArray[np.bool_],
    symbols: Mapping[Any, int],
) -> NDArray[np.int64]:
    """Bytes of every unit; -1 where a size is known only by a bound that has no number.

    The formulas are those of `Program.metrics`. Units that never fired need nothing.

    Parameters
    ----------
    largest : bytes of the largest token of every FIFO.
    fired : whether each unit did.
    symbols : numbers of symbols of the program.
    """
    sizes: dict[int, int] = {}
    for fifo, most in zip(wiring.fifos, largest.tolist(), strict=True):
        kind = id(fifo.stream.type)
        sizes[kind] = max(sizes.get(kind, 0), most)
    account = _AsRun("executed", False, sizes)
    found = np.zeros(len(wiring.units), np.int64)
    for u in np.flatnonzero(fired).tolist():
        operator = wiring.units[u].operator
        if operator is not None:
            found[u] = _number(operator.memory(account), symbols)
    return found


def _number(size: Size, symbols: Mapping[Any, int]) -> int:
    if isinstance(size, Formula) and not size.symbols() <= symbols.keys():
        return -1
    return number_of(size, symbols)
