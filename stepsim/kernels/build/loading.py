"""Machine code that was checked, loaded without the compiler.

A shared object is loaded by the system: as a file in memory, so that what was verified is what is
loaded and no folder need be writable. A relocatable one is loaded by llvmlite alone, where there is
no linker. Code stays loaded until the process ends, since threads may be in it.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from stepsim.kernels.build.entries import Code, UnusableError

SYMBOL: Final = "stepsim_entry"
"""Name of the one function that an object offers; it takes a pointer to its words."""

_BEGINNINGS: Final = {"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe"}
"""Of relocatable objects."""

_ELF_64: Final = b"\x7fELF\x02\x01"
_ELF_HEADER: Final = struct.Struct("<32xQ14xHH6x")
"""Place of the records of segments in the file, their size and number."""

_SEGMENT: Final = struct.Struct("<8xQ16xQ16x")
"""Place and length of a segment in the file."""

_numbers = itertools.count(1)
_engines: list[Any] = []


def loaded(code: Code) -> Callable[[Any], int]:
    """The function of some code, which releases the interpreter lock while it runs.

    Raises:
        UnusableError: the system refuses the code, or it has no such function.
    """
    if code.form != "shared":
        return loaded_object(code.binary)
    if sys.platform == "linux" and not _has_all_segments(code.binary):  # the system would crash
        raise UnusableError("it is not a complete shared object")
    try:
        library = _in_memory(code.binary) if hasattr(os, "memfd_create") else None
        library = library or _in_file(code.binary)
        return _typed(library[SYMBOL])
    except (OSError, AttributeError) as error:
        raise UnusableError(f"the system cannot load it: {error}") from error


def _has_all_segments(binary: bytes) -> bool:
    """Whether an ELF file of 64 bits is as long as its segments say."""
    if not binary.startswith(_ELF_64) or len(binary) < _ELF_HEADER.size:
        return False
    at, size, count = _ELF_HEADER.unpack_from(binary)
    if size < _SEGMENT.size or at + size * count > len(binary):
        return False
    segments = [_SEGMENT.unpack_from(binary, at + size * i) for i in range(count)]
    return all(begin + length <= len(binary) for begin, length in segments)


def _in_memory(binary: bytes) -> ctypes.CDLL | None:
    """The library, None where files in memory cannot be loaded from."""
    try:
        handle = os.memfd_create("stepsim")
    except OSError:  # forbidden in some sandboxes
        return None
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(binary)
        # The system knows what it has loaded by name, and numbers of files are used again.
        name = f"/proc/self/fd/{'./' * next(_numbers)}{handle}"
        return ctypes.CDLL(name) if Path(name).exists() else None
    finally:
        os.close(handle)


def _in_file(binary: bytes) -> ctypes.CDLL:
    import tempfile  # few systems need it, as few processes link

    with tempfile.TemporaryDirectory(prefix="stepsim-") as folder:
        path = Path(folder, "engine.so")
        path.write_bytes(binary)
        return ctypes.CDLL(str(path))


def loaded_object(binary: bytes) -> Callable[[Any], int]:
    """The function of a relocatable object, linked in memory.

    Raises:
        UnusableError: it is not an object for this machine, or has no such function.
    """
    from llvmlite import binding as llvm

    if not binary.startswith(_BEGINNINGS.get(sys.platform, b"")):  # LLVM would crash
        raise UnusableError("it is not a shared object of this system")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    file = llvm.ObjectFileRef.from_data(binary)
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(file)
    engine.finalize_object()
    address = engine.get_function_address(SYMBOL)
    if not address:
        raise UnusableError(f"it has no function {SYMBOL}")
    _engines.append(engine)
    return _typed(ctypes.CFUNCTYPE(ctypes.c_int64)(address))


def _typed(function: Any) -> Callable[[Any], int]:
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int64
    typed: Callable[[Any], int] = function
    return typed


def in_best_form(binary: bytes) -> Code:
    """A relocatable object as it is loaded fastest: linked, where the system has a linker."""
    if sys.platform == "linux":
        shared = _linked(binary)
        if shared is not None:
            return Code("shared", shared)
    return Code("unlinked", binary)


_LINKERS: Final = (
    ("cc", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,-z,noexecstack", "-Wl,-s"),
    ("ld", "-shared", "-Bsymbolic", "-z", "noexecstack", "-s"),
)
"""No library is named: what the code needs of C is in every process, of whatever version."""


def _linked(binary: bytes) -> bytes | None:
    """The shared object of a relocatable one, None without a linker, or where it fails."""
    import shutil
    import subprocess
    import tempfile

    for name, *options in _LINKERS:
        linker = shutil.which(name)
        if linker is None:
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="stepsim-") as folder:
                source, target = Path(folder, "engine.o"), Path(folder, "engine.so")
                source.write_bytes(binary)
                done = subprocess.run(
                    [linker, *options, "-o", target, source], capture_output=True, check=False
                )
                if done.returncode == 0:
                    return target.read_bytes()
        except OSError:  # a full disk, or a linker that cannot be run
            continue
    return None
