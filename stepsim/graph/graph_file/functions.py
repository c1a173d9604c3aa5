"""Functions and initial states in the format."""

from __future__ import annotations

from typing import Any, Final

from stepsim.errors import GraphFileError
from stepsim.graph import fn
from stepsim.graph.accumulation import Init
from stepsim.graph.functions.function import Function
from stepsim.graph.graph_file.messages import chosen
from stepsim.graph.types import DType

_ELEMENTWISE: Final = {
    "mul": "mul", "silu": "silu", "add": "add", "div": "div", "row_wise_sum": "row_sum",
    "exp": "exp", "set_offset": "set_offset", "row_wise_append": "append_row", "sub": "sub",
    "row_wise_max": "row_max", "tanh": "tanh", "rsqrt": "rsqrt", "sigmoid": "sigmoid",
    "square": "square", "pow2": "pow2", "transpose": "transpose",
}  # fmt: skip
"""Functions of maps without parameters: name in the format, name in ``st.fn``."""

_ACCUMULATED: Final = {
    "add": "add", "mul": "mul", "max": "max", "retile_row": "pack_rows",
    "retile_col": "pack_cols", "last": "last", "increment": "increment",
    "signal_req_all_read": "signal",
}  # fmt: skip


def read_function(message: Any, where: str) -> Function:
    """The function of a map or map-accumulate.

    Raises
    ------
    GraphFileError : stepsim has no such function.
    """
    name = chosen(message)
    assert name is not None
    inside = getattr(message, name)
    if name in ("matmul", "dyn_matmul"):
        return fn.matmul_t if inside.weight_transposed else fn.matmul
    if name == "cache_write_addr_gen":
        return fn.cache_write_address(inside.offset_per_idx)
    return _own(_ELEMENTWISE.get(name), name, where)


def read_accumulation(message: Any, where: str) -> Function:
    """The function of an accumulation; raises like `read_function`."""
    name = chosen(message)
    assert name is not None
    return _own(_ACCUMULATED.get(name), name, where)


def _own(ours: str | None, name: str, where: str) -> Function:
    found = getattr(fn, ours, None) if ours else None
    if not isinstance(found, Function):
        raise GraphFileError(f"{where}: stepsim has no function {name}")
    return found


def put_function(message: Any, function: Function, dynamic: bool, where: str) -> None:
    """Write the function of a map or map-accumulate; ``dynamic``: an operand has no fixed size.

    Raises
    ------
    GraphFileError : the format has no such function.
    """
    if function in (fn.matmul, fn.matmul_t):
        put = message.dyn_matmul if dynamic else message.matmul
        put.SetInParent()
        put.weight_transposed = function is fn.matmul_t
        return
    if function.name == "cache_write_address":
        (message.cache_write_addr_gen.offset_per_idx,) = function.arguments
        return
    _put(message, function, _ELEMENTWISE, where)


def put_accumulation(message: Any, function: Function, where: str) -> None:
    """Write the function of an accumulation; raises like `put_function`."""
    _put(message, function, _ACCUMULATED, where)


def _put(message: Any, function: Function, names: dict[str, str], where: str) -> None:
    for name, ours in names.items():
        if hasattr(message, name) and getattr(fn, ours, None) is function:
            getattr(message, name).SetInParent()
            return
    raise GraphFileError(f"{where}: the format has no function for {function.name}")


_STATES: Final = {"zero": "zero", "empty": "empty", "one": "one", "neg_infinity": "neg_infinity"}


def read_init(
    message: Any, sides: tuple[int, int], dtype: DType | None, function: Function, where: str
) -> Init | None:
    """The state before the first element; None for the default of a function."""
    name = chosen(message)
    assert name is not None
    if function is fn.signal:
        return None
    try:
        return Init(_STATES[name], *sides, dtype)
    except ValueError as error:
        raise GraphFileError(f"{where}: {error}") from error


def put_init(message: Any, init: Init, where: str) -> None:
    """Write the state before the first element.

    Raises
    ------
    GraphFileError : the format has no such state.
    """
    if not hasattr(message, init.kind):
        raise GraphFileError(f"{where}: the format has no initial state {init}")
    getattr(message, init.kind).SetInParent()
