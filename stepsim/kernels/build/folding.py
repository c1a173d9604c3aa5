"""One compilation of a kernel for all whole numbers, and less work in each.

Numba compiles a function once for every combination of argument types, and an ``int16`` field, an
``int64``, an enumerator and a literal are four types of a number. Kernels compute with 64 bits, so
that every signed one is handed over as that. In the search for the types of an operation, numba
compares the flags of the compilation over and over, field by field; here flags that are equal are
one object, which says so at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numba
from numba.core import types as _types
from numba.core.compiler import Flags
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import cpu_target

types: Any = _types


class _SharedFlags(Flags):  # type: ignore[misc]
    """Flags that nobody changes: a copy of them is no other object."""

    def copy(self) -> _SharedFlags:
        return self

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


_SHARED: dict[str, _SharedFlags] = {}


class _TypingContext(type(cpu_target.typing_context)):  # type: ignore[misc]
    """Numba's own, which searches for the types of an operation on the same operands once."""

    def __init__(self) -> None:
        self.__dict__.update(vars(cpu_target.typing_context))
        self._found: dict[Any, Any] = {}

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        if not isinstance(func, types.Function):
            return super().resolve_function_type(func, args, kws)
        key = func, args, tuple(kws.items())
        if key not in self._found:
            self._found[key] = super().resolve_function_type(func, args, kws)
        return self._found[key]


class _TargetContext(type(cpu_target.target_context)):  # type: ignore[misc]
    """Numba's own, which asks LLVM for the size of a type once."""

    def __init__(self, typing_context: _TypingContext) -> None:
        self.__dict__.update(vars(cpu_target.target_context))
        self.typing_context = typing_context
        self._sizes: dict[Any, int] = {}

    def get_abi_sizeof(self, ty: Any) -> int:
        if ty not in self._sizes:
            self._sizes[ty] = super().get_abi_sizeof(ty)
        return self._sizes[ty]


class _Target:
    """What kernels are compiled for: this processor."""

    options = cpu_target.options

    @cached_property
    def typing_context(self) -> _TypingContext:
        return _TypingContext()

    @cached_property
    def target_context(self) -> _TargetContext:
        return _TargetContext(self.typing_context)


_TARGET = _Target()


class _Compiler(_FunctionCompiler):  # type: ignore[misc]
    def fold_argument_types(self, args: Any, kws: Any) -> Any:
        signature, folded = super().fold_argument_types(args, kws)
        return signature, tuple(_folded(kind) for kind in folded)

    def _customize_flags(self, flags: Any) -> Any:
        return _SHARED.setdefault(repr(flags), _SharedFlags(flags))


def _folded(kind: Any) -> Any:
    """The type that a kernel is compiled for, where an argument has the type ``kind``."""
    plain = types.unliteral(kind)
    if isinstance(plain, types.IntEnumMember):
        plain = plain.dtype
    if isinstance(plain, types.Integer) and plain.signed:
        return types.int64
    return plain


def dispatcher_of(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """What compiles a kernel with these options of ``numba.njit``, for every kind of arguments."""
    made = numba.njit(**options)(function)
    if not numba.config.DISABLE_JIT:
        made._compiler = _Compiler(
            function, _TARGET, made.targetoptions, {}, options["pipeline_class"]
        )
    return made
