"""Functions of valid rows and addresses, packs and signals (STeP paper, section 4.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.graph.functions.function import Function
from stepsim.graph.functions.polynomial import Polynomial
from stepsim.graph.functions.shape import Shape
from stepsim.graph.functions.standard import family, standard
from stepsim.graph.sizes.limits import RESERVED
from stepsim.graph.types import DType


def _append(tiles: Any, x: Any, row: Any) -> Any:
    data = x.copy()
    first = tiles[0].valid
    data[first : first + len(row)] = row
    return data


set_offset = standard(
    "set_offset", "m n, 1 1 -> m n", lambda x, rows: x, "The same tile with other valid rows.",
    cycles=1, kinds=("tile", "address"), valid=("value", 1), numbers=(("keep", 0),),
    text="The second operand is the number of valid rows.",
)  # fmt: skip
append_row = standard(
    "append_row", "m n, 1 n -> m n", _append, "A row put into the first padding row.", cycles=1,
    valid=("append", 0, 1), sized=True,
    text="The tile has one valid row more; a run fails when it has no padding row left.",
)  # fmt: skip


@family(1)
def cache_write_address(stride: int) -> Function:
    """Map of (index, length) to the index of the last tile of a request.

    Request ``index`` has ``stride`` tiles reserved, of which it uses ``length`` (at least 1): the
    tile is ``index * stride + length - 1``, the last that :func:`cache_read_addresses` reads.

    Parameters
    ----------
    stride : tiles reserved for each request.

    Example
    -------
    >>> with st.Program("append") as program:
    ...     index, length = st.metadata([0, 1]), st.metadata([2, 3])
    ...     addr = st.map(st.fn.cache_write_address(4), index, length)
    ...     addr.consume()
    >>> [int(token.payload.data[0, 0]) for token in run_functional(program).stream(addr)]
    [1, 6]
    """
    reserved = RESERVED.checked("cache_write_address: stride", stride)
    return standard(
        "cache_write_address", "1 1, 1 1 -> 1 1", None,
        "Address of the last tile of a request, of (index, length).", cycles=1,
        kinds=("address", "address"), dtype=DType.u64, valid=("rows",),
        numbers=(("address", 0, 1, reserved),), arguments=(reserved,),
    )  # fmt: skip


def _pack(name: str, side: str) -> Function:
    a, b, kept = (
        Polynomial.of("a"),
        Polynomial.of("b"),
        Polynomial.of("n" if side == "rows" else "m"),
    )
    if side == "rows":
        text, state, element, grown = "a n; b n -> a+b n", (a, kept), (b, kept), (a + b, kept)
    else:
        text, state, element, grown = "m a; m b -> m a+b", (kept, a), (kept, b), (kept, a + b)
    axis = 0 if side == "rows" else 1
    return standard(
        name, Shape(text, (state, element), (grown,), 1),
        lambda state, x: np.concatenate((state, x), axis=axis),
        f"Tiles of a reduction put together, {'below' if side == 'rows' else 'beside'} each other.",
        valid=("packed", 0, 1) if side == "rows" else ("first", (1,)), packs=side,
        text="An accumulation or a scan; it starts from an empty tile.",
    )  # fmt: skip


pack_rows = _pack("pack_rows", "rows")
pack_cols = _pack("pack_cols", "cols")
signal = standard(
    "signal", "1 1; a b -> 1 1", None, "A one when a reduction is over.", cycles=1,
    kinds=("tile", "tile"), dtype=DType.u64, valid=("rows",), numbers=(("constant", 1),),
    text="An accumulation of any tiles; it signals that a request is finished.",
)  # fmt: skip
