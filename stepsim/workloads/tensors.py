"""Tensors of workloads on several chips: each chip has its own, with names that say whose."""

from __future__ import annotations

from stepsim.dtypes import DType
from stepsim.graph import TensorSpec, current_program, name_on, spec


def tensor_of(*shape: int, dtype: DType, name: str) -> TensorSpec:
    """A tensor off chip of the chip that operators are being made for."""
    return spec(*shape, dtype=dtype, name=own_name(name))


def own_name(name: str) -> str:
    """The name of a tensor of the current chip: ``hidden.0``, on chip 3 ``hidden.0@3``."""
    program = current_program()
    return name if program is None else name_on(name, program.chip)
