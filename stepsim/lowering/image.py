"""The Image: everything the engine needs, as flat arrays that can be run again and again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Image"]


@dataclass(frozen=True, slots=True)
class Image:
    """A network laid out for the engine. Arrays are never written: every run works on copies.

    Attributes
    ----------
    units, channels, ports : records of :mod:`stepsim.kernels.layout` in their initial state.
    slots : the fixed part of the slot arena (source tokens, private token storage, first rings).
    params : all integer parameters, input and output lists, and the selector table.
    scratch_words : private int64 scratch space of all units together.
    memory_table : triangular numbers and room for the period rows of the memory model.
    globals : the one record of scalars.
    memory_model : name of the memory model; its code in ``globals`` depends on what is installed.
    unit_names, unit_ops, channel_names : for results and reports.
    """

    units: NDArray[np.void]
    channels: NDArray[np.void]
    slots: NDArray[np.void]
    params: NDArray[np.int64]
    scratch_words: int
    ports: NDArray[np.void]
    memory_table: NDArray[np.int64]
    globals: NDArray[np.void]
    memory_model: str
    unit_names: tuple[str, ...]
    unit_ops: tuple[str, ...]
    channel_names: tuple[str, ...]
    selectors: tuple[tuple[int, tuple[int, ...]], ...]
    """(width, selected indices) of every selector id."""

    def digest(self) -> str:
        """SHA-256 of all arrays: equal images give equal runs.

        A memory model counts by name. Its code also depends on the plugins that are installed,
        whether the run uses them or not.
        """
        # Down to the padding between fields, which numpy need not copy.
        shared = np.frombuffer(bytearray(self.globals.tobytes()), self.globals.dtype)
        shared["memory_model"] = 0
        digest = hashlib.sha256(self.memory_model.encode())
        for array in (self.units, self.channels, self.slots, self.params, self.ports, shared):
            digest.update(array.tobytes())
        return digest.hexdigest()
