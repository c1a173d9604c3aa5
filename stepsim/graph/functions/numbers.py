"""Functions of whole numbers, and rows that are made of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import SAME_AS_PUBLISHED, family, standard
from stepsim.graph.sizes.limits import NUMBER, TILE_SIDE
from stepsim.graph.types import DType

increment = standard(
    "increment", "1 1; a b -> 1 1", None, "The number of elements of a reduction.", cycles=1,
    kinds=("tile", "tile"), dtype=DType.u64, valid=("rows",), numbers=(("plus", 0, 1),),
    text=f"An accumulation of any tiles. {SAME_AS_PUBLISHED}: it takes as long as a signal.",
)  # fmt: skip


@family(0)
def is_equal(number: int) -> Function:
    """Map of a whole number to 1 where it is ``number``, else to 0.

    ``index_to_multihot(2)`` makes selectors of the results.

    Parameters
    ----------
    number : the number that others are compared with.
    """
    wanted = NUMBER.checked("is_equal: number", number)
    return standard(
        "is_equal", "1 1 -> 1 1", None, f"1 where a whole number is {wanted}, else 0.", cycles=1,
        kinds=("address",), dtype=DType.u64, valid=("rows",), numbers=(("equal", 0, wanted),),
        arguments=(wanted,), spelling=f"st.fn.is_equal({wanted})",
    )  # fmt: skip


@family(0)
def to_integer(number: int) -> Function:
    """Map of any tile to the whole number ``number``.

    Parameters
    ----------
    number : the number.
    """
    wanted = NUMBER.checked("to_integer: number", number)
    return standard(
        "to_integer", "m n -> 1 1", None, f"{wanted} for every tile.", cycles=1, kinds=("tile",),
        dtype=DType.u64, valid=("rows",), numbers=(("constant", wanted),), arguments=(wanted,),
        spelling=f"st.fn.to_integer({wanted})",
    )  # fmt: skip


@family(1)
def broadcast_rows(rows: int) -> Function:
    """Map of one row to a tile of ``rows`` rows like it.

    Shape
    -----
    ``1 n -> rows n``: rows and columns of each tile.

    Parameters
    ----------
    rows : rows of the result.
    """
    count = TILE_SIDE.checked("broadcast_rows: rows", rows)

    def values(x: Any) -> Any:
        return np.repeat(x, count, axis=0)

    return standard(
        "broadcast_rows", f"1 n -> {count} n", values, f"One row, {count} times.", cycles=1,
        valid=("rows",), arguments=(count,),
    )  # fmt: skip
