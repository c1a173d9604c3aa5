"""What a memory model is to the engine: declared in the file that holds its kernels.

``issue(state, port, clock, requests)``
    The unit of ``port`` starts an access of ``requests`` requests, one or more, at its clock; the
    first bundle is taken in the following cycle.
``advance(state, limit)``
    Run the memory up to and including cycle ``limit``, but not past the first completion it
    creates. It is called only when no unit can run, so all requests still to come are issued at or
    after ``limit``. A model that knows the completion when an access is issued needs none.
``ends_from(state)``
    A cycle before which the memory ends no access, of those issued so far. Beside a network the
    memory need not be run up to there. A model may leave it out.

Every access completed is entered in the calendar: ``schedule(state, unit, clock)``. A model may
keep what it likes in ``state.free_at`` (one word for each memory channel), in the port records and
in a table of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import frozen
from stepsim.kernels.build.jit import inlined


@frozen
class MemoryTable:
    """Numbers that a model begins with, the first of ``state.memory_table``.

    Attributes
    ----------
    words : state of a run and constants; every run has a copy of its own.
    cache : words behind them, zero before the first run. Nothing of an earlier run in them may
        change what a run of the same image does: rooms that are written before they are read, and
        results that depend on the machine alone.
    """

    words: NDArray[np.int64]
    cache: int = 0


@frozen
class MemoryModel:
    """A memory model, chosen by ``hbm.model`` of a machine.

    Attributes
    ----------
    name : as it stands in a machine file.
    description : one phrase for listings.
    addressed : requests have addresses, which an image carries for it.
    apart : the engine is one of its own, compiled when it is first needed; see
        :mod:`stepsim.kernels.engines`.
    listed : a machine may name it.
    shared : all operators share the channels of the machine, so that its peak bandwidth limits
        them; without it no bandwidth utilization is reported.
    kernels : ``issue``, ``advance`` and ``ends_from``, compiled.
    tables : what makes the table from the number of memory channels and the bundle size of every
        port.
    bounded_tables : the same with the bound of the requests of a port that are under way; without
        one, the model takes no bound.
    """

    name: str
    description: str
    shared: bool = True
    addressed: bool = False
    apart: bool = False
    listed: bool = True
    kernels: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    tables: list[Callable[[int, Sequence[int]], MemoryTable]] = field(
        default_factory=list, compare=False, repr=False
    )
    bounded_tables: list[Callable[[int, Sequence[int], int], MemoryTable]] = field(
        default_factory=list, compare=False, repr=False
    )

    def issue(self, function: Callable[..., Any]) -> Any:
        """Decorator of the kernel that starts an access."""
        return self.kernels.setdefault("issue", inlined(function))

    def advance(self, function: Callable[..., Any]) -> Any:
        """Decorator of the kernel that lets time pass."""
        return self.kernels.setdefault("advance", inlined(function))

    def ends_from(self, function: Callable[..., Any]) -> Any:
        """Decorator of the kernel that says when an access may end."""
        return self.kernels.setdefault("ends_from", inlined(function))

    def table(self, function: Callable[..., MemoryTable]) -> Callable[..., MemoryTable]:
        """Decorator of the function (channels, bundles) that makes the table of a run."""
        self.tables.append(function)
        return function

    def bounded_table(self, function: Callable[..., MemoryTable]) -> Callable[..., MemoryTable]:
        """Decorator of the function (channels, bundles, outstanding) for runs with a bound."""
        self.bounded_tables.append(function)
        return function

    def table_for(self, channels: int, bundles: Sequence[int]) -> MemoryTable:
        """The table of a run; one word when the model has none."""
        for make in self.tables:
            return make(channels, bundles)
        return MemoryTable(np.zeros(1, np.int64))
