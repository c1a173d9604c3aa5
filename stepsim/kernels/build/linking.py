"""How the machine code of kernels is made: optimized and emitted once, with the entry point.

Numba optimizes every compiled function on its own and makes machine code of it, with all that it
calls; the entry point then goes through the same again. Kernels have no other caller than the
entry, so that they are kept as they are until then. There, every function but the one that C calls
is made known to be private: LLVM drops what is inlined everywhere and arguments that a function
does not use, which makes calls cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from llvmlite import binding as llvm
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    InlineInlinables,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)


class _NoEnvironment:
    """Takes the place of a code generator when the environment of a function is stored.

    It is for code that calls Python, and numba restores that of the entry alone from a cache.
    """

    def set_env(self, name: str, environment: object) -> None:
        """The variable for it is not in memory."""


class _HelperLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel, neither linked nor optimized over calls nor emitted."""

    _attributes: tuple[str, ...] = ()

    @property
    def codegen(self) -> _NoEnvironment:
        return _NoEnvironment()

    def finalize(self) -> None:
        self._raise_if_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration:
                for attribute in self._attributes:
                    function.add_function_attribute(attribute)
        self._finalize_dynamic_globals()
        self._finalized = True

    def _optimize_functions(self, ll_module: Any) -> None:
        """Nothing: all is optimized with the entry."""

    def get_pointer_to_function(self, name: str) -> int:
        return 0  # there is no wrapper for Python

    def own_module(self) -> Any:
        """The module of the kernel alone, for linking. It may be linked more than once."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        # For functions that are not ours, as those of a test: they do not link what we call.
        module = self.own_module().clone()
        for called in _with_called(self._linking_libraries):
            module.link_in(_module_of(called), preserve=True)
        return module


class _ApartLibrary(_HelperLibrary):
    """The code of a kernel that is never made part of its callers."""

    _attributes = ("noinline",)


class _ColdLibrary(_HelperLibrary):
    """The code of a kernel that is hardly ever called: its callers are laid out for that."""

    _attributes = ("noinline", "cold")


def _with_called(libraries: Iterable[Any]) -> Iterator[Any]:
    """Libraries and what they call, however deep, each once."""
    seen = set()
    rest = list(libraries)
    while rest:
        called = rest.pop()
        if called in seen:
            continue
        seen.add(called)
        if isinstance(called, _HelperLibrary):
            rest.extend(called._linking_libraries)
        yield called


def _module_of(library: Any) -> Any:
    if isinstance(library, _HelperLibrary):
        return library.own_module()
    return library._get_module_for_linking()


_PASSES: Final = (
    TranslateByteCode, FixupArgs, IRProcessing, GenericRewrites, InlineInlinables, ReconstructSSA,
    NopythonTypeInference, PreLowerStripPhis, IRLegalization, NativeLowering, NoPythonBackend,
)  # fmt: skip
"""What kernels need of numba's passes: they have no closures, contexts or expressions of arrays,
and LLVM removes branches that are never taken."""


class _Compiler(Compiler):  # type: ignore[misc]
    _library_class: type[Any]

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self._library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        pipeline = PassManager("kernel")
        for step in _PASSES:
            pipeline.add_pass(step, step.__name__)
        pipeline.finalize()
        return [pipeline]


class HelperCompiler(_Compiler):
    """Compiles what only other kernels call."""

    _library_class = _HelperLibrary


class ApartCompiler(_Compiler):
    """Compiles what only other kernels call, never inlined."""

    _library_class = _ApartLibrary


class ColdCompiler(_Compiler):
    """Compiles what only other kernels call, and hardly ever."""

    _library_class = _ColdLibrary


COMPILERS: Final[Mapping[str, type[Compiler]]] = {
    "helper": HelperCompiler,
    "apart": ApartCompiler,
    "cold": ColdCompiler,
}
"""By the name that a kernel has for it."""


def whole_module(
    codegen: Any, libraries: Sequence[Any], source: str, offered: Collection[str]
) -> tuple[Any, bool]:
    """Code of functions and all that they call, optimized, and whether it has addresses of this
    process.

    Args:
        libraries: the code of functions that numba compiled.
        source: of functions that call them, in LLVM's language.
        offered: names of those, the only ones to be seen from outside.
    """
    module = llvm.parse_assembly(source)
    module.data_layout = codegen._data_layout
    addresses: set[str] = set()
    for called in _with_called(libraries):
        module.link_in(_module_of(called), preserve=True)
        addresses.update(called._dynamic_globals)
    for value in [*module.functions, *module.global_variables]:
        # Addresses stay as numba made them, so that LLVM keeps those that are used, by name.
        if not value.is_declaration and value.name not in {*offered, *addresses}:
            value.linkage = llvm.Linkage.internal
    passes, builder = codegen._module_pass_manager(slp_vectorize=False)
    passes.run(module, builder)
    module.verify()
    # Those of functions that are only called are not used.
    return module, any(variable.name in addresses for variable in module.global_variables)


def emitted(codegen: Any, module: Any) -> bytes:
    """The relocatable object of a module."""
    options: dict[str, Any] = {"opt": int(config.OPT)}
    codegen._customize_tm_options(options)
    if sys.platform == "linux":  # of which a shared object can be made
        options.pop("jit", None)
        options.update(reloc="pic", codemodel="default")
    target = llvm.Target.from_triple(llvm.get_process_triple())
    binary: bytes = target.create_target_machine(**options).emit_object(module)
    return binary
