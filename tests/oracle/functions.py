"""The functions of the map and reduction operators: cycles and result of one application.

The clock-free half of the operators. ``wb`` is the operator's write-back attribute and becomes the
``rd`` flag of the result unless the function says otherwise. Tiles carry no content.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.fabric import Abort, Payload
from tests.oracle.payloads import ceil_div, integer, tile
from tests.oracle.records import apply_record

__all__ = ["apply", "initial"]

Result = tuple[int, Payload]


def _value(x: Payload) -> int:
    if "value" not in x:
        raise Abort(f"a tile with content was expected, found {x}; feed an integer stream")
    if list(x["tile"][:2]) != [1, 1]:
        raise Abort(f"an integer was expected, found a tile of {x['tile'][:2]}")
    return int(x["value"])


def _broadcast(a: int, b: int) -> int:
    if a != b and a != 1 and b != 1:
        raise Abort(f"tile dims {a} and {b} cannot be broadcast: make them equal or one of them 1")
    return b if a == 1 else a  # as arrays are: an empty side stays empty


def _matmul(
    x1: Payload, x2: Payload, transposed: bool, bw: int, wb: bool, result_bpe: float | None
) -> Result:
    m, k, bpe1, _, off1 = x1["tile"]
    r2, c2, bpe2, _, _ = x2["tile"]
    inner, n = (c2, r2) if transposed else (r2, c2)
    if k != inner:
        raise Abort(f"matmul: inner dims {k} and {inner} differ")
    if result_bpe is None and bpe1 != bpe2:
        raise Abort(f"matmul: operands have {bpe1} and {bpe2} bytes per element")
    return ceil_div(2 * m * k * n, bw), tile(m, n, result_bpe or bpe1, wb, off1)


def _apply_unary(name: str, x: Payload, bw: int, wb: bool) -> Result:
    """One-operand functions of UnaryMap."""
    rows, cols, bpe, _, off = x["tile"]
    if name == "Silu":
        return ceil_div(8 * rows * cols, bw), tile(rows, cols, bpe, wb, off)
    if name == "Exp":
        return ceil_div(4 * rows * cols, bw), tile(rows, cols, bpe, wb, off)
    if name == "RowWiseSum":
        return ceil_div(rows * cols, bw), tile(rows, 1, bpe, wb, off)
    raise Abort(f"unknown unary function {name!r}")


def _apply_binary(
    fn: list[Any], x1: Payload, x2: Payload, bw: int, wb: bool, params: dict[str, Any]
) -> Result:
    """Two-operand functions of BinaryMap, and of UnaryMap over tuples."""
    name = fn[0]
    transposed = bool(fn[1]) if len(fn) > 1 else False
    r1, c1, bpe1, _, off1 = x1["tile"]
    r2, c2, _, _, off2 = x2["tile"]
    if name in ("Matmul", "DynMatmul"):
        return _matmul(x1, x2, transposed, bw, wb, params.get("result_bpe"))
    if name in ("Mul", "Div", "Add"):
        rows, cols = _broadcast(r1, r2), _broadcast(c1, c2)
        mixed = off2 if r1 == 1 else off1
        off = max(off1, off2) if r1 == r2 else mixed
        return ceil_div(rows * cols, bw), tile(rows, cols, bpe1, wb, off)
    if name == "RowWiseAppend":
        if c1 != c2:
            raise Abort(f"RowWiseAppend: column counts {c1} and {c2} differ")
        if off1 + r2 > r1:
            raise Abort(f"RowWiseAppend: {off1} valid + {r2} new rows exceed the {r1} rows")
        return 1, tile(r1, c1, bpe1, wb, off1 + r2)
    if name == "SetOffset":
        if _value(x2) > r1:
            raise Abort(f"{_value(x2)} valid rows of a tile of {r1}")
        made = tile(r1, c1, bpe1, wb, _value(x2))
        return 1, {**made, "value": x1["value"]} if "value" in x1 else made
    if name == "CacheWriteAddrGen":
        if _value(x2) < 1:
            raise Abort(f"a request of length {_value(x2)} has no last tile")
        if _value(x1) * params["stride"] + _value(x2) >= 2**63:
            raise Abort(f"tiles of request {_value(x1)} pass 2**63 - 1")
        return 1, integer(_value(x1) * params["stride"] + _value(x2) - 1, rd=int(wb))
    raise Abort(f"unknown binary function {name!r}")


def initial(params: dict[str, Any]) -> list[Payload]:
    """The initial accumulators ``A0``: declared shapes, all rows valid, ``rd`` = write-back."""
    init = params["init"]
    if len(init) == 2 and isinstance(init[0], int):
        init = [[*init, params["bpe"]]]
    return [tile(rows, cols, bpe, params["wb"], rows) for rows, cols, bpe in init]


def _map_accumulate(
    fn: list[Any], x1: Payload, x2: Payload, acc: Payload, bw: int, wb: bool, params: dict[str, Any]
) -> Result:
    """``g(x1, x2, acc)`` of BinaryMapAccum; adding into the accumulator is free."""
    name = fn[0]
    transposed = bool(fn[1]) if len(fn) > 1 else False
    comp, y = _matmul(x1, x2, transposed, bw, wb, params.get("result_bpe"))
    shape = acc["tile"][:2]
    unchecked = name == "DynMatmul" and 0 in shape
    if shape != y["tile"][:2] and not unchecked:
        raise Abort(f"{name}: accumulator is {shape}, product is {y['tile'][:2]}")
    return comp, y


def _accumulate(name: str, x: Payload, acc: Payload, bw: int, wb: bool, model: str) -> Result:
    """``g(x, acc)`` of Accum and Scan."""
    if name == "SignalReqAllRead":
        return 1, integer(1, rd=int(wb))
    rows, cols, bpe, rd, off = x["tile"]
    acc_rows, acc_cols, _, _, acc_off = acc["tile"]
    if name in ("Add", "Mul"):
        if 0 in (acc_rows, acc_cols):  # adopted from the first tile
            acc_rows, acc_cols = rows, cols
        out_rows, out_cols = _broadcast(rows, acc_rows), _broadcast(cols, acc_cols)
        valid = out_rows
        if model == "step-2026":
            valid = acc_off if rows == 1 and acc_rows > 1 else off
        return ceil_div(out_rows * out_cols, bw), tile(out_rows, out_cols, bpe, wb, valid)
    if name == "RetileRow":
        if cols != acc_cols and acc_rows + acc_cols > 0:
            raise Abort(f"RetileRow: column counts {cols} and {acc_cols} differ")
        if 0 < off < rows:
            raise Abort(f"RetileRow: a tile without content has {off} of {rows} rows valid")
        return 0, tile(acc_rows + rows, cols, bpe, rd, acc_off + off)
    if name == "RetileCol":
        if rows != acc_rows and acc_cols > 0:
            raise Abort(f"RetileCol: row counts {rows} and {acc_rows} differ")
        return 0, tile(rows, acc_cols + cols, bpe, rd, off)
    raise Abort(f"unknown accumulation function {name!r}")


def _spread(x: Payload) -> list[Payload]:
    """The operands in a payload: the members of a tuple, of tuples in it too."""
    return [part for member in x["tuple"] for part in _spread(member)] if "tuple" in x else [x]


def apply(
    params: dict[str, Any], model: str, elements: list[Payload], states: list[Payload] | None = None
) -> tuple[int, list[Payload]]:
    """Cycles and results of one firing of any unit that applies a function.

    ``states`` are the accumulators of a reduction, whose new states are the results.
    """
    fn, bw, wb = params["fn"], params["bw"], params["wb"]
    operands = [part for x in elements for part in _spread(x)]
    if isinstance(fn, dict):
        return apply_record(fn, [*(states or []), *operands], bw, wb, model)
    name = fn if isinstance(fn, str) else fn[0]
    if states is None:
        if len(operands) == 1:
            comp, y = _apply_unary(name, operands[0], bw, wb)
        elif len(operands) == 2:
            comp, y = _apply_binary(list(fn), operands[0], operands[1], bw, wb, params)
        else:
            raise Abort(f"{name} of {len(operands)} operands")
    elif len(operands) == 1:
        comp, y = _accumulate(name, operands[0], states[0], bw, wb, model)
    else:
        comp, y = _map_accumulate(list(fn), operands[0], operands[1], states[0], bw, wb, params)
    return comp, [y]
