"""Functions for higher-order operators, under one short name: ``st.fn.matmul``.

Those that other packages offer under the entry points ``stepsim.functions`` are here too.
"""

from difflib import get_close_matches
from typing import Any

from stepsim.errors import ArgError
from stepsim.graph.accumulation import empty, one, zero
from stepsim.graph.functions import (
    Function,
    add,
    append_row,
    cache_write_address,
    div,
    exp,
    matmul,
    matmul_t,
    mul,
    pack_cols,
    pack_rows,
    row_sum,
    set_offset,
    signal,
    silu,
)
from stepsim.graph.ops.flat_map import (
    StreamFunction,
    cache_read_addresses,
    emit,
    expert_addresses,
    last_tile_filter,
    unpack_cols,
    unpack_rows,
)
from stepsim.plugins import usable

__all__ = [
    "add",
    "append_row",
    "cache_read_addresses",
    "cache_write_address",
    "div",
    "emit",
    "empty",
    "exp",
    "expert_addresses",
    "last_tile_filter",
    "matmul",
    "matmul_t",
    "mul",
    "one",
    "pack_cols",
    "pack_rows",
    "row_sum",
    "set_offset",
    "signal",
    "silu",
    "unpack_cols",
    "unpack_rows",
    "zero",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    offered = {plugin.name: plugin for plugin in usable("stepsim.functions")}
    if name not in offered:
        near = get_close_matches(name, [*__all__, *offered], 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"there is no function st.fn.{name}{hint}")
    function = offered[name].loaded
    if not isinstance(function, Function | StreamFunction):
        raise ArgError(
            f"plugin '{name}' of package {offered[name].package} is a {type(function).__name__}, "
            "expected a Function"
        )
    return function


def __dir__() -> list[str]:
    return sorted([*__all__, *(plugin.name for plugin in usable("stepsim.functions"))])
