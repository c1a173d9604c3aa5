"""All that compiles kernels; what loads compiled ones never imports it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from llvmlite import binding as llvm, ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.types import NamedTuple  # type: ignore[attr-defined]
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from stepsim.collection import without_collection
from stepsim.kernels.build import (
    bits_types as bits_types,
    folding,
    reference_type as reference_type,
)
from stepsim.kernels.build.foreign import plugin_refusal
from stepsim.kernels.build.linking import COMPILERS, emitted, whole_module
from stepsim.kernels.build.loading import SYMBOL
from stepsim.kernels.build.part import PARTS
from stepsim.kernels.build.parts import OPTIONS, declare_parts, parts_for, put_together
from stepsim.kernels.recording import flag_type as flag_type


@dataclass(frozen=True, slots=True)
class Compiled:
    """Code of an entry point.

    Attributes
    ----------
    binary : a relocatable object with one function, :data:`stepsim.kernels.build.loading.SYMBOL`.
    processor : what it is for, as LLVM calls it.
    is_portable : it refers to nothing of this process.
    """

    binary: bytes
    processor: str
    is_portable: bool


def dispatcher_of(function: Callable[..., Any], library: str, options: Mapping[str, Any]) -> Any:
    """What compiles a kernel for the types of its arguments."""
    return folding.dispatcher_of(function, {**options, "pipeline_class": COMPILERS[library]})


@global_compiler_lock  # type: ignore[untyped-decorator]
def compiled(function: Callable[..., Any], layouts: Sequence[Any]) -> Compiled:
    """Compile an entry point of the engine.

    Args:
        layouts: a named tuple of dtypes for each named tuple of arrays that it takes. The first is
            what the parts of all engines take.

    Raises:
        UserCodeError: the kernel of a plugin cannot be compiled.
    """
    dispatcher = dispatcher_of(function, "helper", OPTIONS)
    signature = tuple(_tuple_of_arrays(layout) for layout in layouts)
    declare_parts()
    try:
        with without_collection():
            dispatcher.compile(signature)
    except NumbaError as error:
        refusal = plugin_refusal(error)
        if refusal is None:
            raise
        raise refusal from None
    result = dispatcher.overloads[signature]
    codegen = result.target_context.codegen()
    source = _entry_source(result.target_context, result)
    module, has_addresses = whole_module(codegen, [result.library], source, {SYMBOL})
    if any(name in PARTS for name in _missing(module)):
        parts = parts_for(signature[0])
        has_addresses |= parts.has_addresses
        put_together(module, parts.bitcode)
    processor = numba.config.CPU_NAME or llvm.get_host_cpu_name()
    is_portable = not has_addresses and all(map(_is_of_c, _missing(module)))
    return Compiled(emitted(codegen, module), processor, is_portable)


def _tuple_of_arrays(layout: Any) -> Any:
    arrays = [types.Array(from_dtype(np.dtype(dtype)), 1, "C") for dtype in layout]
    return NamedTuple(arrays, type(layout))


def _entry_source(context: Any, result: Any) -> str:
    """The function that C calls, in LLVM's language.

    Its words are address and length of every array, in order. The first word is what the compiled
    function returns; the function itself returns 0, or why the other one raised an error.
    """
    module = context.create_module(SYMBOL)
    word = ir.IntType(64)
    entry = ir.Function(module, ir.FunctionType(word, [word.as_pointer()]), SYMBOL)
    (words,) = entry.args
    builder = ir.IRBuilder(entry.append_basic_block())
    arguments = []
    place = 0
    for kind in result.signature.args:
        arrays = []
        for of in kind.types:
            address, length = (
                builder.load(builder.gep(words, [word(place + k)])) for k in range(2)
            )
            place += 2
            array = context.make_array(of)(context, builder)
            itemsize = word(context.get_abi_sizeof(context.get_data_type(of.dtype)))
            if isinstance(of.dtype, types.Record):
                itemsize = word(of.dtype.size)
            populate_array(
                array, builder.inttoptr(address, array.data.type), [length], [itemsize], itemsize,
                None,
            )  # fmt: skip
            arrays.append(array._getvalue())
        arguments.append(context.make_tuple(builder, kind, arrays))
    called = context.declare_function(module, result.fndesc)
    returned = result.signature.return_type
    status, value = context.call_conv.call_function(
        builder, called, returned, result.signature.args, arguments
    )
    with builder.if_then(status.is_ok):
        builder.store(context.cast(builder, value, returned, types.int64), words)
        builder.ret(word(0))
    builder.ret(builder.sext(status.code, word))
    return str(module)


def _missing(module: Any) -> list[str]:
    """What a module expects of the process that loads it."""
    names = [*module.functions, *module.global_variables]
    return [
        value.name for value in names if value.is_declaration and not value.name.startswith("llvm.")
    ]


def _is_of_c(name: str) -> bool:
    """Whether every process has the symbol."""
    return hasattr(ctypes.CDLL(None), name) and not name.startswith(("Py", "_Py"))
