"""Functions of other packages, compiled into the engine.

A plugin states what a function makes of the sizes of its operands; the same lines are used for
shapes, for symbolic FLOPs and, compiled, here:

    def sizes(rows, cols):                    # of the operand, or of both: rows, cols, rows, cols
        return rows, cols, 3 * rows * cols    # of the result, and its FLOPs (or cycles)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from stepsim.kernels.functions.declaration import TileFunction, declared_functions
from stepsim.kernels.functions.tiles import fill_tile, pack
from stepsim.kernels.jit import inlined
from stepsim.kernels.layout import MAX_TILE_SIDE, Abort
from stepsim.kernels.queues import abort
from stepsim.plugins import usable

__all__ = ["declare_plugins"]

_log = logging.getLogger("stepsim")


def declare_plugins() -> None:
    """Declare every function of the group ``stepsim.functions`` that states its sizes."""
    for plugin in usable("stepsim.functions"):
        function = plugin.loaded
        sizes = getattr(function, "sizes", None)
        if sizes is None:
            continue  # it is timed like the function that it names as its unit
        if function.map_unit in declared_functions():
            _log.warning(
                "function '%s' of package %s is left out: the name is taken; choose another",
                function.map_unit, plugin.package,
            )  # fmt: skip
            continue
        _declare(function.map_unit, function.arity, function.constant_cycles, sizes)


def _declare(name: str, arity: int, constant_cycles: bool, sizes: Callable[..., Any]) -> None:
    measure = inlined(sizes)

    def unary(un, its, x, y):
        rows, cols, cost = measure(int(x.rows), int(x.cols))
        valid = x.off if rows == x.rows else rows
        if not _fits(un, rows, cols, cost, x, x):
            return -1
        fill_tile(y, rows, cols, valid, x.bits)
        return cost

    def binary(un, its, x1, x2, y):
        rows, cols, cost = measure(int(x1.rows), int(x1.cols), int(x2.rows), int(x2.cols))
        valid = _valid_rows(rows, x1, x2)
        if not _fits(un, rows, cols, cost, x1, x2):
            return -1
        fill_tile(y, rows, cols, valid, x1.bits)
        return cost

    declared = TileFunction(name, constant_cycles)
    if arity == 1:
        declared.use("unary")(unary)
    else:
        declared.use("binary")(binary)


@inlined
def _valid_rows(rows, x1, x2):
    # The larger count of the operands that have the rows of the result.
    if x1.rows == rows and x2.rows == rows:
        return max(x1.off, x2.off)
    if x1.rows == rows:
        return x1.off
    return x2.off if x2.rows == rows else rows


@inlined
def _fits(un, rows, cols, cost, x1, x2):
    # Negative numbers say that the operands do not fit each other.
    if rows < 0 or cols < 0 or cost < 0:
        abort(un, Abort.NOT_BROADCASTABLE, pack(x1.rows, x1.cols), pack(x2.rows, x2.cols))
        return False
    if rows > MAX_TILE_SIDE or cols > MAX_TILE_SIDE:
        abort(un, Abort.TILE_TOO_LARGE, max(rows, cols), MAX_TILE_SIDE)
        return False
    return True
