"""An array of a run among the compiled kernels: the address of its first entry.

Kernels ask for entries by numbers that lie in the array. Without its length, which numba needs for
indices counted from the end, an entry costs no comparison, and the code is half as long. With
``NUMBA_BOUNDSCHECK=1`` the length comes along, and every number is compared with it.
"""

from __future__ import annotations

import operator
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, config, types
from numba.core.types import Type
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

IS_CHECKED: Final = bool(config.BOUNDSCHECK)
"""Whether a column has its length."""

_WORD: Final = ir.IntType(64)


class Column(Type):
    """An array of one dim of numbers or records, next to each other."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Column({dtype})")


@register_model(Column)
class _ColumnModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, of: Column) -> None:
        pointer = _pointer(manager, of.dtype)
        checked = ir.LiteralStructType([pointer, _WORD])
        super().__init__(manager, of, checked if IS_CHECKED else pointer)


def _pointer(manager: Any, dtype: Any) -> Any:
    # The value of a record is its address.
    model = manager.lookup(dtype)
    if isinstance(dtype, types.Record):
        return model.get_value_type()
    return model.get_data_type().as_pointer()


def column(builder: Any, first: Any, length: Any) -> Any:
    """A column from the address of its first entry and its length, both as the compiler has them.

    The length is None unless columns are checked.
    """
    if not IS_CHECKED:
        return first
    return cgutils.pack_struct(builder, [first, length])


def _entry(context: Any, builder: Any, of: Any, index: Any) -> Any:
    """The address of an entry."""
    first = of
    if IS_CHECKED:
        first, length = cgutils.unpack_tuple(builder, of, 2)
        cgutils.do_boundscheck(context, builder, index, length)
    return builder.gep(first, [index], inbounds=True)


@infer_global(operator.getitem)
class _Read(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Column) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, args[0], types.intp)
        return None


@infer_global(operator.getitem)
class _Cut(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Column) and args[1] == types.slice2_type:
            return signature(args[0], args[0], args[1])
        return None


@infer_global(operator.setitem)
class _Write(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Column) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.intp, args[0].dtype)
        return None


@lower_builtin(operator.getitem, Column, types.Integer)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    of = sig.args[0]
    at = _entry(context, builder, args[0], args[1])
    if isinstance(of.dtype, types.Record):
        return at
    return context.unpack_value(builder, of.dtype, at)


@lower_builtin(operator.getitem, Column, types.slice2_type)  # type: ignore[untyped-decorator]
def _cut(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The entries from one on, as ``words[begin:]`` has them; the end is not looked at."""
    begin = context.make_helper(builder, sig.args[1], args[1]).start
    if not IS_CHECKED:
        return builder.gep(args[0], [begin], inbounds=True)
    first, length = cgutils.unpack_tuple(builder, args[0], 2)
    return column(builder, builder.gep(first, [begin]), builder.sub(length, begin))


@lower_builtin(operator.setitem, Column, types.Integer, types.Any)  # type: ignore[untyped-decorator]
def _write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    at = _entry(context, builder, args[0], args[1])
    context.pack_value(builder, sig.args[0].dtype, args[2], at)
    return context.get_dummy_value()
