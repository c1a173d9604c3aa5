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
from typing import Any

import numpy as np

from stepsim.kernels import engine
from stepsim.kernels.build.entry_point import EntryPoint, cached_entry
from stepsim.kernels.build.jit import apart
from stepsim.kernels.layout import RecordedState
from stepsim.kernels.memory.dispatch import ALL_MODELS


def engine_of(model: str) -> EntryPoint:
    """What runs images with a memory model."""
    if not ALL_MODELS[model].apart:
        return engine.run  # type: ignore[no-any-return]
    return _own_engine(model)


def recorded_engine_of(model: str) -> EntryPoint:
    """What runs images with a memory model and records them."""
    if not ALL_MODELS[model].apart:
        from stepsim.kernels.recording.recorded import run_recorded

        return run_recorded  # type: ignore[no-any-return]
    return _own_recorded_engine(model)


@cache
def _own_engine(model: str) -> EntryPoint:
    entry = _with(engine._entry, f"run_{model}", run_on=_loop(model))
    what = f"engine of memory model '{model}'"
    return cached_entry(entry, engine.LAYOUT, engine.BATCH_LAYOUT, what=what)


@cache
def _own_recorded_engine(model: str) -> EntryPoint:
    from stepsim.kernels.recording import recorded

    entry = _with(recorded._recorded_entry, f"run_recorded_{model}", run_on=_loop(model))
    layout = RecordedState(*engine.LAYOUT, journal=np.dtype(np.int64))
    what = f"engine of recorded runs with memory model '{model}'"
    return cached_entry(entry, layout, what=what)


@cache
def _loop(model: str) -> Any:
    """The event loop around the kernels of a model."""
    plain = getattr(engine.run_on, "py_func", engine.run_on)
    kernels = ALL_MODELS[model].kernels
    return apart(_with(plain, f"run_on_{model}", **kernels))


def _with(function: Callable[..., Any], name: str, **others: Any) -> Callable[..., Any]:
    """The function with other things by some of the names that it refers to."""
    assert isinstance(function, FunctionType)
    made = FunctionType(function.__code__, {**function.__globals__, **others}, name)
    made.__qualname__ = name
    made.__module__ = __name__
    return made
