"""The functions of the published simulator by its names: records of the standard functions.

Networks may name a function instead of giving its record. The meaning of the names is defined once,
by the functions of ``st.fn``; see :meth:`stepsim.graph.functions.function.Function.record`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stepsim.graph import fn
from stepsim.graph.functions.function import Function, Record as Record


def _named(name: str, function: Function | None, **changes: Any) -> Record:
    assert function is not None
    return {**function.record(), "name": name, **changes}


def matmul(
    name: str = "Matmul", transposed: bool = False, bits: int | None = None, states: int = 0
) -> Record:
    """Product of two tiles; with a state, the product is added to it, which is free.

    ``transposed`` means that the second operand is stored transposed. Operands have equal widths
    unless ``bits``, the width of the result, is given. Only ``DynMatmul`` takes
    its shape from the first product if it starts from a state without rows or columns.
    """
    function = fn.matmul_t if transposed else fn.matmul
    changes: Record = {} if name == "DynMatmul" else {"adopts": []}
    record = _named(name, function.summing if states else function, **changes)
    if bits is None:
        return record
    return {**record, "same_bits": [], "results": [{**record["results"][0], "bits": bits}]}


def write_address(stride: int) -> Record:
    """From (index, length), the index of the last tile of a request with ``stride`` reserved tiles.

    The published simulator adds the length itself, which is one tile too far; none of its times
    depends on it.
    """
    return _named("CacheWriteAddrGen", fn.cache_write_address(stride))


MAPS: Final[Mapping[str, Record]] = {
    **{
        name: _named(name, function)
        for name, function in {
            "Silu": fn.silu, "Exp": fn.exp, "RowWiseSum": fn.row_sum, "Mul": fn.mul, "Div": fn.div,
            "Add": fn.add, "SetOffset": fn.set_offset,
        }.items()
    },
    # Published runs append any number of rows.
    "RowWiseAppend": _named("RowWiseAppend", fn.append_row, checks=[[3, [[1, [1]]]]]),
    "Matmul": matmul(),
    "DynMatmul": matmul("DynMatmul"),
}  # fmt: skip
"""Functions of maps by their published names; :func:`write_address` makes another."""

ACCUMULATIONS: Final[Mapping[str, Record]] = {
    "Add": _named("Add", fn.add.folding),
    "Mul": _named("Mul", fn.mul.folding),
    "RetileRow": _named("RetileRow", fn.pack_rows),
    "RetileCol": _named("RetileCol", fn.pack_cols),
    "SignalReqAllRead": _named("SignalReqAllRead", fn.signal),
}
"""Functions (state, element) of accumulations and scans."""

MAP_ACCUMULATIONS: Final[Mapping[str, Callable[..., Record]]] = {
    "Matmul": lambda **options: matmul("Matmul", states=1, **options),
    "DynMatmul": lambda **options: matmul("DynMatmul", states=1, **options),
}
"""Functions (state, first, second) of map-accumulates, made for ``transposed`` and ``bits``."""
