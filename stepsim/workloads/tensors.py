"""Tensors of workloads on several chips: each chip has its own, with names that say whose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from stepsim.dtypes import DType
from stepsim.graph import TensorSpec, current_program, name_on, spec

_micro_batch = ContextVar("micro_batch", default=0)


def tensor_of(*shape: int, dtype: DType, name: str) -> TensorSpec:
    """A tensor off chip of the chip and the micro-batch that operators are being made for."""
    return spec(*shape, dtype=dtype, name=own_name(name))


def weights_of(*shape: int, dtype: DType, name: str) -> TensorSpec:
    """A tensor off chip that all micro-batches of a chip share."""
    return spec(*shape, dtype=dtype, name=_on_chip(name))


def own_name(name: str) -> str:
    """The name of a tensor of the current chip and micro-batch: ``hidden.0``, on chip 3
    ``hidden.0@3``, and of the second micro-batch there ``hidden.0/1@3``."""
    number = _micro_batch.get()
    return _on_chip(f"{name}/{number}" if number else name)


def _on_chip(name: str) -> str:
    program = current_program()
    return name if program is None else name_on(name, program.chip)


@contextmanager
def micro_batch(number: int) -> Iterator[None]:
    """The block that makes operators for a micro-batch."""
    before = _micro_batch.set(number)
    try:
        yield
    finally:
        _micro_batch.reset(before)
