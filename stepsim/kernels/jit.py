"""How kernels are compiled, and a compilation cache that cannot be stale.

Numba keys its on-disk cache on the file of the cached function alone: an edit in another kernel
file would silently run old machine code. Here the key is a digest of every kernel source, those of
plugins included, together with the versions of numba, llvmlite and numpy, and the entry lives in a
folder named by that digest.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from stepsim.plugins import sources, usable

__all__ = [
    "COMPILED_GROUPS",
    "cache_directory",
    "cached_entry",
    "inlined",
    "is_compiled",
    "kernel",
    "source_digest",
    "spliced",
]

_log = logging.getLogger("stepsim")
_COMPILER_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")
_HERE = Path(__file__).resolve().parent

COMPILED_GROUPS: Final = ("stepsim.functions", "stepsim.memory_models")
"""Groups of plugins that offer kernels."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True
}  # fmt: skip

kernel: Callable[..., Any] = numba.njit(**_OPTIONS)
"""Compile a helper that only other kernels call.

No reference counts, because kernels allocate nothing, and no wrapper for Python callers: without
them the engine runs several times faster and compiles in two thirds of the time. To call a kernel
from Python, call it from a function of your own that is compiled with ``numba.njit``.
"""

inlined: Callable[..., Any] = numba.njit(forceinline=True, **_OPTIONS)
"""Compile a helper that becomes part of the machine code of its callers.

For what runs in every firing: a call costs more than most helpers do, because all arrays of the
state are handed over.
"""

spliced: Callable[..., Any] = numba.njit(inline="always", **_OPTIONS)
"""Make a helper part of its caller before that is compiled: for what has one caller."""


def source_digest(folder: Path = _HERE) -> str:
    """Digest of all kernel sources below ``folder``, of the sources of plugins that are compiled
    into the engine, and of the compiler's versions and settings."""
    digest = hashlib.sha256()
    for name, path in [*_sources(folder), *_plugin_sources()]:
        digest.update(name.encode())
        digest.update(b"\0")
        digest.update(path.read_bytes())
        digest.update(b"\0")
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)
    settings = [(name, getattr(numba.config, name, None)) for name in _COMPILER_SETTINGS]
    digest.update(repr((versions, settings)).encode())
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(folder).as_posix(), path


def _plugin_sources() -> Iterator[tuple[str, Path]]:
    """Every source file of the packages whose kernels the engine contains."""
    for group in COMPILED_GROUPS:
        for plugin in usable(group):
            for name, path in sources(plugin):
                yield f"{group}/{plugin.name}/{plugin.value}/{name}", path


@lru_cache(maxsize=1)
def _loaded_digest() -> str:
    return source_digest()


def cache_directory() -> Path:
    """Folder of the compiled engine: below ``STEPSIM_CACHE_DIR`` or the user's cache folder."""
    root = os.environ.get("STEPSIM_CACHE_DIR")
    if root is None:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = str(Path(home) / "stepsim")
    return Path(root) / f"kernels-{_loaded_digest()[:20]}"


def is_compiled() -> bool:
    """Whether a compiled engine is on disk. It is not read, so it may still prove unusable."""
    return any(cache_directory().glob("*.nbc"))


class _Locator(_CacheLocator):  # type: ignore[misc]
    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return _loaded_digest()

    def get_disambiguator(self) -> str:
        return "engine"


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    # The base class would pick a locator by the function's file; ours is fixed.
    def __init__(self, py_func: Callable[..., Any]) -> None:
        self._lineno = py_func.__code__.co_firstlineno
        self._locator = _Locator()
        name = f"{Path(inspect.getfile(py_func)).stem}.{py_func.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))

    def check_cachable(self, cres: Any) -> bool:
        # Happens with NUMBA_OPT=0. The base class would warn and name a file our locator has not.
        if cres.library.has_dynamic_globals:
            _log.warning("the compiled engine refers to this process: it is not stored")
            return False
        return True


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """A broken or unwritable cache costs a compilation, never a wrong or failed run."""

    _impl_class = _Impl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            _log.warning(
                "compiled engine in %s is unreadable (%s); compiling", self.cache_path, error
            )
            self._remove_files()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _log.warning("cannot store the compiled engine in %s (%s)", self.cache_path, error)

    def _remove_files(self) -> None:
        for path in Path(self.cache_path).glob(f"{self._impl.filename_base}*"):
            path.unlink(missing_ok=True)


def cached_entry(function: Callable[..., Any]) -> Any:
    """Compile an entry point of the engine, with the GIL released, and keep it on disk."""
    options = {"error_model": "numpy", "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
    dispatcher = numba.njit(**options)(function)
    if not numba.config.DISABLE_JIT:
        dispatcher._cache = _KernelCache(function)
    return dispatcher
