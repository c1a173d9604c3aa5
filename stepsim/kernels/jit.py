"""How kernels are compiled, and a compilation cache that cannot be stale.

Numba keys its on-disk cache on the file of the cached function alone: an edit in another kernel
file would silently run old machine code. Here the key is a digest of every kernel source, those of
plugins included, together with the versions of numba, llvmlite and numpy, and the entry lives in a
folder named by that digest. :mod:`stepsim.kernels.entries` has the file of an entry.
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

from stepsim.kernels.entries import SUFFIX, EntryFiles, is_whole
from stepsim.kernels.linking import ApartCompiler, ColdCompiler, EntryCompiler, HelperCompiler
from stepsim.plugins import sources, usable

__all__ = [
    "COMPILED_GROUPS",
    "apart",
    "cache_directory",
    "cached_entry",
    "cold",
    "inlined",
    "is_compiled",
    "kernel",
    "source_digest",
    "spliced",
]

_log = logging.getLogger("stepsim")
_COMPILER_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")
_HERE = Path(__file__).resolve().parent

COMPILED_GROUPS: Final = ("stepsim.memory_models",)
"""Groups of plugins that offer kernels."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
    "pipeline_class": HelperCompiler, "forceinline": False,
}  # fmt: skip

kernel: Callable[..., Any] = numba.njit(**_OPTIONS)
"""Compile a helper that only other kernels call; LLVM decides where it becomes part of its callers.

``forceinline`` is said outright, for numba takes over what the first caller happens to have.

No reference counts, because kernels allocate nothing, and no wrapper for Python callers: without
them the engine runs several times faster and compiles in two thirds of the time. To call a kernel
from Python, call it from a function of your own that is compiled with ``numba.njit``.
"""

inlined: Callable[..., Any] = numba.njit(**{**_OPTIONS, "forceinline": True})
"""Compile a helper that becomes part of the machine code of its callers.

For what runs in every firing: a call costs more than most helpers do, because all arrays of the
state are handed over.
"""

apart: Callable[..., Any] = numba.njit(**{**_OPTIONS, "pipeline_class": ApartCompiler})
"""Compile a helper that is never made part of its callers, as the step of a unit.

One function of all units takes the compiler much longer than it takes for the units one by one.
"""

cold: Callable[..., Any] = numba.njit(**{**_OPTIONS, "pipeline_class": ColdCompiler})
"""Compile a helper that is hardly ever called: its callers are laid out for the case without it."""

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
    """Whether a compiled engine is on disk, undamaged. It may be one for another processor."""
    return any(is_whole(path) for path in cache_directory().glob(f"*{SUFFIX}"))


class _Locator(_CacheLocator):  # type: ignore[misc]
    def __init__(self) -> None:
        self._folder = cache_directory()

    def ensure_cache_path(self) -> None:
        if self._folder.is_file():  # as wrong as a damaged entry, which is replaced too
            self._folder.unlink()
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return _loaded_digest()

    def get_disambiguator(self) -> str:
        return ""  # of numba's own file names


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    # The base class would pick a locator by the function's file; ours is fixed.
    def __init__(self, py_func: Callable[..., Any]) -> None:
        self._locator = _Locator()
        name = f"{Path(inspect.getfile(py_func)).stem}.{py_func.__qualname__}"
        # Angle brackets are not allowed everywhere.
        self._filename_base = name.replace("<", "").replace(">", "")

    def check_cachable(self, cres: Any) -> bool:
        # Happens with NUMBA_OPT=0. The base class would warn and name a file our locator has not.
        if cres.library.has_dynamic_globals:
            _log.warning("the compiled engine refers to this process: it is not stored")
            return False
        return True


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """A broken or unwritable cache costs a compilation, never a wrong or failed run."""

    _impl_class = _Impl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        # In place of numba's index and data files, which have no digest.
        self._cache_file = EntryFiles(
            Path(self.cache_path), self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            _log.warning(
                "compiled engine in %s cannot be used: %s; compiling it anew",
                self.cache_path, reason,
            )  # fmt: skip
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except (OSError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            _log.warning(
                "cannot store the compiled engine in %s: %s; every start compiles it until that "
                "folder can be written or STEPSIM_CACHE_DIR names another",
                self.cache_path, reason,
            )  # fmt: skip


def cached_entry(function: Callable[..., Any]) -> Any:
    """Compile an entry point of the engine, with the GIL released, and keep it on disk."""
    options = {
        "error_model": "numpy", "nogil": True, "_nrt": False, "no_cfunc_wrapper": True,
        "pipeline_class": EntryCompiler,
    }  # fmt: skip
    dispatcher = numba.njit(**options)(function)
    if not numba.config.DISABLE_JIT:
        dispatcher._cache = _KernelCache(function)
    return dispatcher
