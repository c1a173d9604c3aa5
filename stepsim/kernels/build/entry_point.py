"""The compiled functions that Python calls, from wherever there is code of them.

The code is that of the wheel, or what an earlier process stored, or it is compiled. A call hands
over the addresses and lengths of arrays. It releases the interpreter lock, and several threads may
be in it with arrays of their own.
"""

from __future__ import annotations

import ctypes
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stepsim.compilation import compiling
from stepsim.deferred import deferred
from stepsim.errors import LoweringError
from stepsim.frozen import frozen
from stepsim.kernels.build.cache_key import (
    BUILT,
    built_stamp,
    cache_directory,
    imported_digest,
    is_unchanged,
    loaded_digest,
)
from stepsim.kernels.build.entries import Code, EntryFiles, UnusableError
from stepsim.kernels.build.loading import in_best_form, loaded
from stepsim.kernels.build.processors import levels_that_run, processor, settings_of
from stepsim.kernels.build.settings import compiler_settings, is_jit_disabled

if TYPE_CHECKING:
    import logging
else:
    logging = deferred("logging")


@frozen
class Origin:
    """Where the code of an entry point is from.

    Attributes
    ----------
    how : with the installation, from the cache, compiled, or not at all: run as plain Python.
    path : the file that has it now; None when it could not be stored.
    processor : the processor or level that it was compiled for, where that is known.
    seconds : that it took to load or compile it.
    """

    how: Literal["installed", "cached", "compiled", "python"]
    path: Path | None = None
    processor: str | None = None
    seconds: float = 0.0


@frozen
class Place:
    """Where there may be code of an entry point: in which files, by which key, for what level."""

    how: Literal["installed", "cached"]
    files: EntryFiles
    key: object
    level: str | None = None


class EntryPoint:
    """A function of the engine; it takes named tuples of arrays and returns a whole number.

    Attributes
    ----------
    py_func : the function.
    what : what it is for, as in "engine of recorded runs".
    origin : where its code is from, None before it is loaded.
    """

    def __init__(self, function: Callable[..., Any], layouts: tuple[Any, ...], what: str) -> None:
        self.py_func = function
        self.what = what
        self.origin: Origin | None = None
        self._layouts = layouts
        self._fields = tuple(
            tuple((name, np.dtype(dtype)) for name, dtype in layout._asdict().items())
            for layout in layouts
        )
        self._words = ctypes.c_int64 * max(1, 2 * sum(map(len, self._fields)))
        # Angle brackets are not allowed everywhere.
        name = f"{Path(inspect.getfile(function)).stem}.{function.__qualname__}"
        self._name = name.replace("<", "").replace(">", "")
        self._described = _described(self._fields)
        self._lock = threading.Lock()
        self._code: Callable[[Any], int] | None = None
        imported_digest()  # before the sources can change

    def __call__(self, *arguments: Any) -> Any:
        code = self._code
        if code is None:
            if self.make_ready().how == "python":
                return self.py_func(*arguments)
            code = self._code
            assert code is not None
        return self._run(code, self._words(*self._addresses(arguments)))

    def bound(self, *arguments: Any) -> Callable[[], Any]:
        """A call with these arguments, whose arrays are looked at once and not at every call.

        The caller keeps to it that none of them is resized.
        """
        if self.make_ready().how == "python":
            return partial(self.py_func, *arguments)
        code = self._code
        assert code is not None
        addresses = tuple(self._addresses(arguments))

        def run(_: tuple[Any, ...]) -> Any:
            return self._run(code, self._words(*addresses))

        return partial(run, arguments)  # which keeps the arrays

    @staticmethod
    def _run(code: Callable[[Any], int], words: Any) -> Any:
        error = code(words)
        if error:
            raise LoweringError(
                f"the compiled engine raised error {error}, as for an index out of range; run with "
                "NUMBA_DISABLE_JIT=1 to see where"
            )
        return words[0]

    def make_ready(self) -> Origin:
        """Load the code, or compile it, unless that was done.

        Raises:
            UserCodeError: the kernel of a plugin cannot be compiled.
        """
        with self._lock:
            if self.origin is None:
                begin = time.perf_counter()
                if is_jit_disabled():
                    self.origin = Origin("python")
                    return self.origin
                origin = self._found() or self._compiled()
                self.origin = replace(origin, seconds=time.perf_counter() - begin)
            return self.origin

    def is_stored(self) -> bool:
        """Whether there is code to be loaded, undamaged and for this processor."""
        return self.stored() is not None

    def stored(self) -> Origin | None:
        """Where the code to be loaded is, undamaged and for this processor, if there is any."""
        for place in self.places:
            with suppress(OSError, UnusableError):
                if place.files.load(place.key) is not None:
                    return Origin(place.how, place.files.path(place.key), place.level)
        return None

    @cached_property
    def places(self) -> list[Place]:
        """Where there may be code, in the order in which it is looked for; last the cache."""
        places = []
        if BUILT.is_dir() and not compiler_settings():
            places += [self._of_level(BUILT, level) for level in levels_that_run()]
        files = EntryFiles(cache_directory(), self._name, loaded_digest())
        return [*places, Place("cached", files, (self._described, processor()))]

    def build(self, folder: Path, level: str) -> Path:
        """Compile for a wheel, in a process whose compiler has the settings of the level.

        Raises:
            LoweringError: it has other settings, or the code refers to this process.
        """
        found, expected = compiler_settings(), settings_of(level)
        if found != expected:
            raise LoweringError(
                f"the compiler's settings are {dict(found)}; expected {dict(expected)} for "
                f"{level}: unset the NUMBA_ variables and remove .numba_config.yaml"
            )
        from stepsim.kernels.build.compiling import compiled

        made = compiled(self.py_func, self._layouts)
        if not made.is_portable:
            raise LoweringError(
                "the compiled engine refers to this process, as by the address of a function of a "
                "library; kernels of a wheel may call only other kernels"
            )
        place = self._of_level(folder, level)
        return place.files.save(place.key, in_best_form(made.binary))

    def _of_level(self, folder: Path, level: str) -> Place:
        files = EntryFiles(folder, self._name, built_stamp(level), of_anyone=True)
        return Place("installed", files, self._described, level)

    def _found(self) -> Origin | None:
        for place in self.places:
            try:
                code = place.files.load(place.key)
                if code is None:
                    continue
                if code.form == "unlinked" and place.how == "cached":
                    code = _linked_by_now(place, code)
                self._code = loaded(code)
                return Origin(place.how, place.files.path(place.key), place.level)
            except Exception as error:
                logging.getLogger("stepsim").warning(
                    "compiled engine in %s cannot be used: %s; %s",
                    place.files.folder, _reason(error),
                    "compiling it anew" if place.how == "cached" else "looking for another",
                )  # fmt: skip
        return None

    def _compiled(self) -> Origin:
        from stepsim.kernels.build.compiling import compiled

        logging.getLogger("stepsim").info("compiling the %s; later processes load it", self.what)
        with compiling(self.what):
            made = compiled(self.py_func, self._layouts)
        code = in_best_form(made.binary) if made.is_portable else Code("object", made.binary)
        try:
            self._code = loaded(code)
        except UnusableError:
            if code.form != "shared":
                raise
            # Where programs may not make libraries of what they write.
            code = Code("object", made.binary)
            self._code = loaded(code)
        path = None
        if not made.is_portable:
            logging.getLogger("stepsim").warning(
                "the compiled engine refers to this process: it is not stored"
            )
        elif not is_unchanged():
            logging.getLogger("stepsim").warning(
                "the sources of the kernels were changed since this process imported them: the "
                "compiled engine is that of the old ones and is not stored"
            )
        else:
            path = self._stored(code)
        return Origin("compiled", path, made.processor)

    def _stored(self, code: Code) -> Path | None:
        """The file in the cache that has the code from now on."""
        place = self.places[-1]
        try:
            return place.files.save(place.key, code)
        except (OSError, MemoryError) as error:
            logging.getLogger("stepsim").warning(
                "cannot store the compiled engine in %s: %s; every start compiles it until that "
                "folder can be written or STEPSIM_CACHE_DIR names another",
                place.files.folder, _reason(error),
            )  # fmt: skip
            return None

    def _addresses(self, arguments: tuple[Any, ...]) -> Iterator[int]:
        """Address and length of every array, once it is known to be what the code expects."""
        for fields, argument in zip(self._fields, arguments, strict=True):
            for (name, dtype), array in zip(fields, argument, strict=True):
                if not isinstance(array, np.ndarray):
                    raise _refusal(name, dtype, f"a {type(array).__name__}")
                found = _dtype(array)
                if found is not dtype and found != dtype:
                    raise _refusal(name, dtype, f"one of {found}")
                if _flags(array).num & _NEEDED != _NEEDED or len(_shape(array)) != 1:
                    raise _refusal(name, dtype, _shortcoming(array))
                yield _pointer(id(array) + _HEAD).value or 0
                yield len(array)


# Attributes of records are looked up by name, which takes longer than all the rest.
_dtype = np.ndarray.dtype.__get__
_flags = np.ndarray.flags.__get__
_shape = np.ndarray.shape.__get__
_NEEDED = 0x1 | 0x100 | 0x400
"""Flags of an array that is contiguous, aligned and writeable, as numpy's C interface has them."""

_HEAD = object.__basicsize__
_pointer = ctypes.c_void_p.from_address
"""Of an array object the address of its first element comes first, which numpy's C interface
promises; reading it by an attribute takes ten times longer."""


def _refusal(name: str, dtype: np.dtype[Any], found: str) -> LoweringError:
    kind = dtype if dtype.names is None else f"{dtype.itemsize}-byte records"
    return LoweringError(
        f"array '{name}' of the engine's state: expected a contiguous, aligned and writeable array "
        f"of one dim of {kind}, found {found}; make it as stepsim.kernels.driver does"
    )


def _shortcoming(array: Any) -> str:
    flags = _flags(array)
    lacking = [
        word
        for word, there in (
            ("contiguous", flags.c_contiguous), ("aligned", flags.aligned),
            ("writeable", flags.writeable),
        )
        if not there
    ]  # fmt: skip
    return f"one that is not {' and '.join(lacking)}" if lacking else f"{len(_shape(array))} dims"


def _described(fields: tuple[tuple[tuple[str, np.dtype[Any]], ...], ...]) -> object:
    """Names, types and places of all that is in the arrays, the same with every numpy."""
    return [[(name, _record(dtype)) for name, dtype in of] for of in fields]


def _record(dtype: np.dtype[Any]) -> object:
    if dtype.fields is None:
        return dtype.str
    placed = [
        (name, dtype.fields[name][0].str, dtype.fields[name][1]) for name in dtype.names or ()
    ]
    return placed, dtype.itemsize


def _linked_by_now(place: Place, code: Code) -> Code:
    """Stored code in its best form: there may be a linker now, or room on its disk."""
    best = in_best_form(code.binary)
    if best.form != "shared":
        return code
    try:
        loaded(best)
    except UnusableError:
        best = Code("object", code.binary)
    with suppress(OSError, MemoryError):  # it is tried again by the next process
        place.files.save(place.key, best)
    return best


def _reason(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def cached_entry(function: Callable[..., Any], *layouts: Any, what: str = "engine") -> EntryPoint:
    """An entry point of the engine, compiled when it is first needed and kept on disk.

    Args:
        layouts: for each argument the named tuple of arrays with their dtypes in place of them.
        what: what it is for.
    """
    return EntryPoint(function, layouts, what)
