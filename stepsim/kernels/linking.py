"""How the machine code of kernels is made: optimized and emitted once, with the entry point.

Numba optimizes every compiled function on its own and makes machine code of it, with all that it
calls; the entry point then goes through the same again. Kernels have no other caller than the
entry, so that they are kept as they are until then. There, every function but the entry is made
known to be private: LLVM drops what is inlined everywhere and arguments that a function does not
use, which makes calls cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["ApartCompiler", "ColdCompiler", "EntryCompiler", "HelperCompiler"]


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

    def get_pointer_to_function(self, name: str) -> int:
        return 0  # there is no wrapper for Python

    def own_module(self) -> Any:
        """The module of the kernel alone, for linking. It may be linked more than once."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        # For functions that are not ours, as those of a test: they do not link what we call.
        module = self.own_module().clone()
        for called in _called_by(self):
            module.link_in(called, preserve=True)
        return module


class _ApartLibrary(_HelperLibrary):
    """The code of a kernel that is never made part of its callers."""

    _attributes = ("noinline",)


class _ColdLibrary(_HelperLibrary):
    """The code of a kernel that is hardly ever called: its callers are laid out for that."""

    _attributes = ("noinline", "cold")


class _EntryLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of the entry point and of every kernel that it calls, however deep."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for module in _called_by(self):
            self._final_module.link_in(module, preserve=True)
        for function in self._final_module.functions:
            if function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = llvm.Linkage.internal
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


def _called_by(library: Any) -> Iterator[Any]:
    """The modules of all that a library calls, however deep, each once."""
    seen = {library}
    rest = list(library._linking_libraries)
    while rest:
        called = rest.pop()
        if called in seen:
            continue
        seen.add(called)
        if isinstance(called, _HelperLibrary):
            rest.extend(called._linking_libraries)
            yield called.own_module()
        else:
            yield called._get_module_for_linking()


class _Compiler(Compiler):  # type: ignore[misc]
    _library_class: type[Any]

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self._library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class HelperCompiler(_Compiler):
    """Compiles what only other kernels call."""

    _library_class = _HelperLibrary


class ApartCompiler(_Compiler):
    """Compiles what only other kernels call, never inlined."""

    _library_class = _ApartLibrary


class ColdCompiler(_Compiler):
    """Compiles what only other kernels call, and hardly ever."""

    _library_class = _ColdLibrary


class EntryCompiler(_Compiler):
    """Compiles what is called from Python."""

    _library_class = _EntryLibrary
