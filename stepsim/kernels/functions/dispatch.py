"""The functions by their codes, and the kernels that choose among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stepsim.kernels.functions import builtin  # noqa: F401  (declares its functions)
from stepsim.kernels.functions.declaration import USES, TileFunction, declared_functions
from stepsim.kernels.functions.plugins import declare_plugins
from stepsim.kernels.functions.tiles import charge
from stepsim.kernels.generated import dispatcher
from stepsim.kernels.jit import inlined
from stepsim.kernels.layout import Abort, Payload
from stepsim.kernels.queues import abort

__all__ = ["FUNCTIONS", "accumulate", "binary", "code_of", "map_accumulate", "unary"]

declare_plugins()

FUNCTIONS: Final[Mapping[str, TileFunction]] = dict(declared_functions())
"""Every function by name. The place of a function is its code."""

_CODES: Final = {name: code for code, name in enumerate(FUNCTIONS)}


def code_of(name: str) -> int:
    """Number of a function in an image."""
    return _CODES[name]


def _chooser(use: str):
    call = f"chosen({USES[use]})"
    charged = f"charge(un, {call}, its.compute_bandwidth)"
    cases = [
        (_CODES[name], name, call if function.constant_cycles else charged, function.kernels[use])
        for name, function in FUNCTIONS.items()
        if use in function.kernels
    ]
    return dispatcher(
        f"{use} functions", USES[use], "its.function", cases, names={"charge": charge}
    )


_unary = _chooser("unary")
_binary = _chooser("binary")
_accumulate = _chooser("accumulate")
_map_accumulate = _chooser("map_accumulate")


@inlined
def unary(un, its, x, y):
    """y = f(x); returns its cycles, or -1 when the unit has failed."""
    if x.kind != Payload.TILE:
        abort(un, Abort.PAYLOAD, x.kind, 0)
        return -1
    return _unary(un, its, x, y)


@inlined
def binary(un, its, x1, x2, y):
    """y = f(x1, x2)."""
    if x1.kind != Payload.TILE or x2.kind != Payload.TILE:
        abort(un, Abort.PAYLOAD, x1.kind, x2.kind)
        return -1
    return _binary(un, its, x1, x2, y)


@inlined
def accumulate(un, its, x, state, y):
    """y = f(x, state); ``rd`` of the result included."""
    if x.kind != Payload.TILE:
        abort(un, Abort.PAYLOAD, x.kind, 0)
        return -1
    return _accumulate(un, its, x, state, y)


@inlined
def map_accumulate(un, its, x1, x2, state, y):
    """y = state + f(x1, x2); ``rd`` of the result included."""
    if x1.kind != Payload.TILE or x2.kind != Payload.TILE:
        abort(un, Abort.PAYLOAD, x1.kind, x2.kind)
        return -1
    return _map_accumulate(un, its, x1, x2, state, y)
