"""What the compiler makes of :mod:`stepsim.kernels.build.bits`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from stepsim.kernels.build.bits import lowest


@type_callable(lowest)  # type: ignore[untyped-decorator]
def _type_lowest(context: Any) -> Any:
    def typer(word: Any) -> Any:
        return types.int64

    return typer


@lower_builtin(lowest, types.Integer)  # type: ignore[untyped-decorator]
def _lower_lowest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    word = context.cast(builder, arguments[0], signature.args[0], types.int64)
    return builder.cttz(word, ir.Constant(ir.IntType(1), 1))
