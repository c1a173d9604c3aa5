"""Functions for higher-order operators, under one short name: ``st.fn.matmul``.

Functions that other packages offer as entry points ``stepsim.functions`` are here as well.
"""

import importlib
import logging
from difflib import get_close_matches
from typing import Any

from stepsim.errors import ArgError
from stepsim.graph.accumulation import empty, full, neg_infinity, one, zero
from stepsim.graph.functions import (
    Function,
    abs_ as abs,
    add,
    add_const,
    append_row,
    broadcast_rows,
    cache_write_address,
    cast,
    causal_mask,
    clamp,
    col_max,
    col_mean,
    col_sum,
    concat_cols,
    concat_rows,
    cos,
    dequantize,
    div,
    div_const,
    eq,
    exp,
    floor_div_const,
    full_like,
    ge,
    gelu,
    gelu_tanh,
    gt,
    increment,
    index_to_multihot,
    integer_to_multihot,
    is_equal,
    last,
    le,
    length_mask,
    log,
    lt,
    matmul,
    matmul_t,
    max_ as max,
    min_ as min,
    mul,
    mul_const,
    multihot_to_integer,
    ne,
    neg,
    pack_cols,
    pack_rows,
    part,
    pow2,
    pow_ as pow,
    quantize,
    reciprocal,
    relu,
    rotary,
    row_max,
    row_mean,
    row_sum,
    rsqrt,
    select_and,
    select_not,
    select_or,
    select_to_scalar,
    select_xor,
    set_offset,
    sigmoid,
    signal,
    silu,
    sin,
    slice_cols,
    slice_rows,
    softplus,
    sqrt,
    square,
    sub,
    sub_const,
    t_matmul,
    t_matmul_t,
    tanh,
    to_integer,
    transpose,
    where,
)
from stepsim.graph.ops.flat_map.cutting import emit, unpack_cols, unpack_rows
from stepsim.graph.ops.flat_map.flat_maps import (
    StreamFunction,
    cache_read_addresses,
    expert_addresses,
    last_tile_filter,
)
from stepsim.graph.ops.flat_map.numbers import count_up as counter, view_addresses
from stepsim.plugins import Plugin, usable

__all__ = [
    "abs",
    "add",
    "add_const",
    "append_row",
    "broadcast_rows",
    "cache_read_addresses",
    "cache_write_address",
    "cast",
    "causal_mask",
    "clamp",
    "col_max",
    "col_mean",
    "col_sum",
    "concat_cols",
    "concat_rows",
    "cos",
    "counter",
    "dequantize",
    "div",
    "div_const",
    "emit",
    "empty",
    "eq",
    "exp",
    "expert_addresses",
    "floor_div_const",
    "full",
    "full_like",
    "ge",
    "gelu",
    "gelu_tanh",
    "gt",
    "increment",
    "index_to_multihot",
    "integer_to_multihot",
    "is_equal",
    "last",
    "last_tile_filter",
    "le",
    "length_mask",
    "log",
    "lt",
    "matmul",
    "matmul_t",
    "max",
    "min",
    "mul",
    "mul_const",
    "multihot_to_integer",
    "ne",
    "neg",
    "neg_infinity",
    "one",
    "pack_cols",
    "pack_rows",
    "part",
    "pow",
    "pow2",
    "quantize",
    "reciprocal",
    "relu",
    "rotary",
    "row_max",
    "row_mean",
    "row_sum",
    "rsqrt",
    "select_and",
    "select_not",
    "select_or",
    "select_to_scalar",
    "select_xor",
    "set_offset",
    "sigmoid",
    "signal",
    "silu",
    "sin",
    "slice_cols",
    "slice_rows",
    "softplus",
    "sqrt",
    "square",
    "sub",
    "sub_const",
    "t_matmul",
    "t_matmul_t",
    "tanh",
    "to_integer",
    "transpose",
    "unpack_cols",
    "unpack_rows",
    "view_addresses",
    "where",
    "zero",
]


_log = logging.getLogger("stepsim")
_named: set[str] = set()


def offered_functions() -> dict[str, Plugin]:
    """Functions of other packages by name; those whose name is taken are logged once."""
    offered = {plugin.name: plugin for plugin in usable("stepsim.functions")}
    for name in offered.keys() & {*__all__}:
        plugin = offered.pop(name)
        if name not in _named:
            _named.add(name)
            _log.warning(
                "plugin '%s' of package %s is left out: st.fn.%s is a function of stepsim; offer "
                "it by another name",
                name, plugin.package, name,
            )  # fmt: skip
    return offered


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    offered = offered_functions()
    if name not in offered:
        # Layers are built on functions, so they are looked up here instead of imported.
        layers = importlib.import_module("stepsim.graph.nn").__all__
        near = get_close_matches(name, [*__all__, *offered], 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        if name in layers:
            hint = f"; st.nn.{name} is a layer"
        raise AttributeError(f"there is no function st.fn.{name}{hint}")
    function = offered[name].loaded
    if not isinstance(function, Function | StreamFunction):
        raise ArgError(
            f"plugin '{name}' of package {offered[name].package} is a {type(function).__name__}, "
            "expected a Function, as st.function makes it"
        )
    return function


def __dir__() -> list[str]:
    return sorted([*__all__, *offered_functions()])
