"""How kernels are compiled: what is said of each beside its source.

Nothing here knows the compiler. A decorated function keeps its options until numba asks for its
type, in :mod:`stepsim.kernels.build.compiling`; a process that loads the compiled engine never
does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from stepsim.kernels.build.settings import is_jit_disabled

_DISABLED: Final = is_jit_disabled()


class Kernel:
    """A function that other kernels call. Python that calls it runs the function as it is.

    Attributes
    ----------
    py_func : the function.
    library : how its machine code is made, a name of
        :data:`stepsim.kernels.build.linking.COMPILERS`.
    targetoptions : options of ``numba.njit``, under the name by which numba looks for them.
    """

    def __init__(
        self, function: Callable[..., Any], library: str, options: Mapping[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.library = library
        self.targetoptions = dict(options)

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__module__}.{self.py_func.__qualname__}>"

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """The type by which numba knows the kernel: that of a function compiled with its options.

        Numba asks any object for it that a compiled function refers to.
        """
        from stepsim.kernels.build.compiling import dispatcher_of

        self._dispatcher = dispatcher_of(self.py_func, self.library, self.targetoptions)
        return self._dispatcher._numba_type_


_OPTIONS: Final[Mapping[str, Any]] = {
    "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
    "forceinline": False,
}  # fmt: skip


def _decorator(library: str = "helper", **options: Any) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Any:
        if _DISABLED:
            return function
        return Kernel(function, library, {**_OPTIONS, **options})

    return decorate


kernel: Callable[..., Any] = _decorator()
"""Compile a helper that only other kernels call; LLVM decides where it becomes part of its callers.

``forceinline`` is said outright, for numba takes over what the first caller happens to have.

No reference counts, because kernels allocate nothing, and no wrapper for Python callers: without
them the engine runs several times faster and compiles in two thirds of the time. To call the
machine code of a kernel from Python, call it from a function of your own that is compiled with
``numba.njit``.
"""

inlined: Callable[..., Any] = _decorator(forceinline=True)
"""Compile a helper that becomes part of the machine code of its callers.

For what runs in every firing: a call costs more than most helpers do, because all arrays of the
state are handed over.
"""

apart: Callable[..., Any] = _decorator("apart")
"""Compile a helper that is never made part of its callers, as the step of a unit.

One function of all units takes the compiler much longer than it takes for the units one by one.
"""

cold: Callable[..., Any] = _decorator("cold")
"""Compile a helper that is hardly ever called: its callers are laid out for the case without it."""

spliced: Callable[..., Any] = _decorator(inline="always")
"""Make a helper part of its caller before that is compiled: for what has one caller."""


class _LaterKernel(Kernel):
    """A kernel whose function is made when it is first compiled or called."""

    def __init__(self, name: str, make: Callable[[], Callable[..., Any]]) -> None:
        self.__name__ = name
        self.library = "helper"
        self.targetoptions = {**_OPTIONS, "inline": "always"}
        self._make = make

    @functools.cached_property
    def py_func(self) -> Callable[..., Any]:  # type: ignore[override]
        """The function."""
        return self._make()


def spliced_later(name: str, make: Callable[[], Callable[..., Any]]) -> Any:
    """As `spliced`, for a function that takes long to make and that few processes need."""
    return make() if _DISABLED else _LaterKernel(name, make)
