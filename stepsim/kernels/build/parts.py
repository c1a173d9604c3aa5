"""The parts of all engines: what each kind of unit does, compiled once and put into each engine.

An engine is an event loop with a memory around the steps of units, which are most of its code. An
engine is compiled with nothing but the names of these, and optimized code of theirs that another
engine was compiled with is taken from the cache: a further engine costs a third of the first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from llvmlite import binding as llvm, ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from stepsim.kernels.build.cache_key import cache_directory, is_unchanged, loaded_digest
from stepsim.kernels.build.entries import Code, EntryFiles, UnusableError
from stepsim.kernels.build.folding import dispatcher_of
from stepsim.kernels.build.linking import COMPILERS, whole_module
from stepsim.kernels.build.part import PARTS, Part
from stepsim.kernels.build.processors import processor
from stepsim.kernels.build.reference_type import Reference
from stepsim.kernels.columns import IS_CHECKED

OPTIONS: Final = {
    "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
"""Of ``numba.njit``, for all that Python or an engine calls."""

_WORD: Final = ir.IntType(64)
_ERROR: Final = -1
"""What a part returns in place of a status where an access was beyond an array."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Optimized code of all parts, and whether it has addresses of this process."""

    bitcode: bytes
    has_addresses: bool


_made: dict[Any, Parts] = {}


def declare_parts() -> None:
    """Make all parts known to numba, as functions of which it has no code.

    Each once: parts are there when their engine is imported, which may be after another was
    compiled.
    """
    for part in PARTS.values():
        _declare(part)


@cache
def _declare(part: Part) -> None:
    @type_callable(part)  # type: ignore[untyped-decorator]
    def _typed(context: Any) -> Any:
        def typer(unit: Any, state: Any) -> Any:
            return types.int64

        return typer

    @lower_builtin(part, types.Record, Reference)  # type: ignore[untyped-decorator]
    def _called(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_WORD, [argument.type for argument in arguments])
        module = builder.module
        declared = module.globals.get(part.symbol) or ir.Function(module, kind, part.symbol)
        status = builder.call(declared, arguments)
        if IS_CHECKED:
            with builder.if_then(builder.icmp_signed("==", status, _WORD(_ERROR)), likely=False):
                message = ("an entry beyond an array",)
                context.call_conv.return_user_exc(builder, IndexError, message)
        return status


def parts_for(state: Any) -> Parts:
    """The code of all parts for one type of states, as numba has it."""
    key = repr(state)
    if key not in _made:
        # The types of a state are those of the sources, whose digest all files depend on.
        files = EntryFiles(
            cache_directory(), f"parts.{state.instance_class.__name__}", loaded_digest()
        )
        _made[key] = _stored(files) or _compiled(state, files)
    return _made[key]


def _stored(files: EntryFiles) -> Parts | None:
    with suppress(OSError, UnusableError):  # it is compiled, and stored anew
        code = files.load(processor())
        if code is not None and code.form == "bitcode":
            return Parts(code.binary, has_addresses=False)
    return None


def _compiled(state: Any, files: EntryFiles) -> Parts:
    (units,) = (of for name, of in zip(state.fields, state.types, strict=True) if name == "units")
    signature = units.dtype, Reference(state)
    results = [_result(part, signature) for part in PARTS.values()]
    context = results[0].target_context
    source = _source(context, list(PARTS), results)
    libraries = [result.library for result in results]
    module, has_addresses = whole_module(context.codegen(), libraries, source, PARTS)
    parts = Parts(module.as_bitcode(), has_addresses)
    if not has_addresses and is_unchanged():
        try:
            files.save(processor(), Code("bitcode", parts.bitcode))
        except (OSError, MemoryError) as error:
            logging.getLogger("stepsim").info("cannot store parts of the engines: %s", error)
    return parts


def _result(part: Part, signature: tuple[Any, Any]) -> Any:
    options = {**OPTIONS, "forceinline": False, "pipeline_class": COMPILERS["helper"]}
    dispatcher = dispatcher_of(part.py_func, options)
    dispatcher.compile(signature)
    return dispatcher.overloads[signature]


def _source(context: Any, names: Sequence[str], results: Sequence[Any]) -> str:
    """Functions that return what the compiled ones do, as a word."""
    module = context.create_module("parts")
    for name, result in zip(names, results, strict=True):
        kinds = result.signature.args
        function = ir.Function(
            module,
            ir.FunctionType(_WORD, [context.get_argument_type(kind) for kind in kinds]),
            name,
        )
        builder = ir.IRBuilder(function.append_basic_block())
        called = context.declare_function(module, result.fndesc)
        status, value = context.call_conv.call_function(
            builder, called, result.signature.return_type, kinds, function.args
        )
        with builder.if_then(status.is_ok, likely=True):
            builder.ret(context.cast(builder, value, result.signature.return_type, types.int64))
        builder.ret(_WORD(_ERROR))
    return str(module)


def put_together(module: Any, bitcode: bytes) -> None:
    """Put the code of all parts into the module of an engine."""
    module.link_in(llvm.parse_bitcode(bitcode))
    for name in PARTS:
        module.get_function(name).linkage = llvm.Linkage.internal
    module.verify()
