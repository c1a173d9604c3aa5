"""What the compiler makes of :mod:`stepsim.kernels.recording.flag`.

Kernels are compiled once for each type of state. That a state has no journal is a constant there,
so that LLVM drops what would be written to it: the engine of runs that are not recorded is the one
that it would be if nothing of it were in the kernels.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types import NamedTuple  # type: ignore[attr-defined]
from numba.extending import lower_builtin, type_callable

from stepsim.kernels.build.reference_type import Reference, load_array
from stepsim.kernels.columns import IS_CHECKED, Column, column
from stepsim.kernels.recording.flag import is_recording, journal_of

_FIELD = "journal"
_WORD = ir.IntType(64)


def _pointee(state: Any) -> Any:
    return state.pointee if isinstance(state, Reference) else state


@type_callable(is_recording)  # type: ignore[untyped-decorator]
def _type_is_recording(context: Any) -> Any:
    def typer(state: Any) -> Any:
        return types.boolean

    return typer


@lower_builtin(is_recording, types.Any)  # type: ignore[untyped-decorator]
def _lower_is_recording(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_constant(types.boolean, _FIELD in _pointee(signature.args[0]).fields)


@type_callable(journal_of)  # type: ignore[untyped-decorator]
def _type_journal_of(context: Any) -> Any:
    def typer(state: Any) -> Any:
        return Column(types.int64)

    return typer


@lower_builtin(journal_of, types.Any)  # type: ignore[untyped-decorator]
def _lower_journal_of(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    state, value = signature.args[0], arguments[0]
    fields = _pointee(state).fields
    if _FIELD not in fields:
        nothing = ir.Constant(_WORD.as_pointer(), None)
        return column(builder, nothing, ir.Constant(_WORD, 0) if IS_CHECKED else None)
    if isinstance(state, Reference):
        return load_array(context, builder, state, value, _FIELD)
    assert isinstance(state, NamedTuple)
    place = fields.index(_FIELD)
    array = context.make_array(state.types[place])(
        context, builder, cgutils.unpack_tuple(builder, value, len(fields))[place]
    )
    return column(builder, array.data, array.nitems if IS_CHECKED else None)
