"""The engine of a memory model: the common one, or one of its own.

A model with addresses is as much code as the rest of the engine, and that with a bound on the
requests of a port may cost runs without one nothing. Each has an engine of its own, so that nobody
else waits for its compilation: the same loop around its kernels, compiled when it is first needed,
once for plain runs and once for runs that are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, Literal

import numpy as np

from stepsim.kernels import engine
from stepsim.kernels.build.entry_point import EntryPoint, cached_entry
from stepsim.kernels.build.jit import apart, inlined
from stepsim.kernels.layout import RecordedState
from stepsim.kernels.memory.dispatch import ALL_MODELS

Carries = Literal["", "network", "chips"]
"""What carries tokens: nothing but FIFOs, a network on chip, or one between chips, each of which
has a memory of its own."""


def engine_of(model: str, carries: Carries = "") -> EntryPoint:
    """What runs images with a memory model, and those with a network besides."""
    if not carries and not ALL_MODELS[model].apart:
        return engine.run  # type: ignore[no-any-return]
    return _own_engine(model, carries)


def recorded_engine_of(model: str, carries: Carries = "") -> EntryPoint:
    """What runs images as those of `engine_of` and records them."""
    if not carries and not ALL_MODELS[model].apart:
        from stepsim.kernels.recording.recorded import run_recorded

        return run_recorded  # type: ignore[no-any-return]
    return _own_recorded_engine(model, carries)


@cache
def _own_engine(model: str, carries: Carries) -> EntryPoint:
    entry = _with(engine._entry, f"run_{_name(model, carries)}", run_on=_loop(model, carries))
    what = f"engine of {_words(model, carries)}"
    return cached_entry(entry, engine.LAYOUT, engine.BATCH_LAYOUT, what=what)


@cache
def _own_recorded_engine(model: str, carries: Carries) -> EntryPoint:
    from stepsim.kernels.recording import recorded

    name = f"run_recorded_{_name(model, carries)}"
    entry = _with(recorded._recorded_entry, name, run_on=_loop(model, carries))
    layout = RecordedState(*engine.LAYOUT, journal=np.dtype(np.int64))
    what = f"engine of recorded runs with {_words(model, carries)}"
    return cached_entry(entry, layout, what=what)


def _name(model: str, carries: Carries) -> str:
    return f"{model}_and_{carries}" if carries else model


def _words(model: str, carries: Carries) -> str:
    besides = {"": "", "network": " and a network on chip", "chips": " on several chips"}
    return f"memory model '{model}'{besides[carries]}"


@cache
def _loop(model: str, carries: Carries) -> Any:
    """The event loop around the kernels of a model, and of what ``carries`` tokens."""
    kernels = ALL_MODELS[model].kernels
    if carries:
        from stepsim.kernels.noc import carried, chip_memories

        around: Any = carried if carries == "network" else chip_memories
        advance = kernels.get("advance", carried.rest)
        unknown = carried.may_end if "advance" in kernels else carried.never_ends
        its = {
            "issue_at_memory": kernels["issue"],
            "advance_memory": advance,
            "ends_from": kernels.get("ends_from", unknown),
        }
        if ALL_MODELS[model].addressed:
            its |= {
                "first_end": kernels.get("ends_from"),
                "last_bundle_of": chip_memories.next_cycle_of,
            }
        kernels = {
            name: inlined(_with(_plain(getattr(around, name)), f"{name}_{model}", **its))
            for name in ("issue", "advance")
        }
    return apart(_with(_plain(engine.run_on), f"run_on_{_name(model, carries)}", **kernels))


def _plain(kernel: Any) -> Callable[..., Any]:
    """The function of a kernel."""
    return getattr(kernel, "py_func", kernel)  # type: ignore[no-any-return]


def _with(function: Callable[..., Any], name: str, **others: Any) -> Callable[..., Any]:
    """The function with other things by some of the names that it refers to."""
    assert isinstance(function, FunctionType)
    made = FunctionType(function.__code__, {**function.__globals__, **others}, name)
    made.__qualname__ = name
    made.__module__ = __name__
    return made
