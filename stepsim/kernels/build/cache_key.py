"""What compiled code depends on, and where it is kept: a cache that cannot be stale.

Numba keys its on-disk cache on the file of the cached function alone: an edit in another kernel
file would silently run old machine code. Here the key is a digest of every kernel source, those of
plugins included, together with the versions and settings of the compiler, and the entry lives in a
folder named by that digest. :mod:`stepsim.kernels.build.entries` has the file of an entry.

The code that a wheel carries is for its own kernel sources and for every processor of a level. It
does not depend on the compiler of the user, who needs none to run it: its key has the sources and
no versions. Kernels of plugins are sources that the wheel does not have, so that they are compiled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from stepsim.digests import blake2b
from stepsim.kernels.build.settings import compiler_settings, compiler_versions
from stepsim.plugins import sources, usable

_HERE = Path(__file__).resolve().parents[1]

COMPILED_GROUPS: Final = ("stepsim.memory_models",)
"""Groups of plugins that offer kernels."""

BUILT: Final = _HERE / "built"
"""Folder of the code that a platform wheel carries; no other installation has it."""


def source_digest(folder: Path = _HERE) -> str:
    """Digest of all kernel sources below ``folder``, of the sources of plugins that are compiled
    into the engine, and of the compiler's versions and settings."""
    return _with_compiler(_digest_of_sources(folder))


def built_stamp(level: str) -> str:
    """What the code of a wheel for a level of processors was compiled for."""
    return repr((imported_digest(), sys.platform, level))


def _with_compiler(digest: str) -> str:
    parts = (digest, compiler_versions(), compiler_settings())
    return blake2b(repr(parts).encode()).hexdigest()


def _digest_of_sources(folder: Path) -> str:
    digest = blake2b()
    for name, path in [*_sources(folder), *_plugin_sources()]:
        with Path(path).open("rb", buffering=0) as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()


def _sources(folder: Path) -> list[tuple[str, str]]:
    """The name and path of every source, in the order of names: text, as every start does this."""
    found, folders = [], [("", str(folder))]
    for before, inside in folders:
        with os.scandir(inside) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append((before + entry.name, entry.path))
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    folders.append((f"{before}{entry.name}/", entry.path))
    return sorted(found)


def _plugin_sources() -> Iterator[tuple[str, str]]:
    """Every source file of the packages whose kernels the engine contains."""
    for group in COMPILED_GROUPS:
        for plugin in usable(group):
            for name, path in sources(plugin):
                yield f"{group}/{plugin.name}/{plugin.value}/{name}", str(path)


@lru_cache(maxsize=1)
def imported_digest() -> str:
    """The digest of the kernel sources that this process has imported.

    It is computed when the engine is imported. By the first run the files may have changed, as
    after an edit or an installation, and the functions are still those of the old files.
    """
    return _digest_of_sources(_HERE)


def is_unchanged() -> bool:
    """Whether the sources are still those that were imported: part of the compiler is imported
    when it is needed."""
    try:
        return _digest_of_sources(_HERE) == imported_digest()
    except OSError:  # a file is gone
        return False


@lru_cache(maxsize=1)
def loaded_digest() -> str:
    """The digest of the sources and the compiler of this process."""
    return _with_compiler(imported_digest())


def cache_directory() -> Path:
    """Folder of the compiled engine: below ``STEPSIM_CACHE_DIR`` or the user's cache folder."""
    root = os.environ.get("STEPSIM_CACHE_DIR")
    if root is None:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = str(Path(home) / "stepsim")
    return Path(root) / f"kernels-{loaded_digest()[:20]}"
