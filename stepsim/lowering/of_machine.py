"""What a machine decides of an image: scalars, and the table of its memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.kernels import (
    CAN_BE_BOUNDED,
    MemoryTable,
    PortAccess,
    bounded_table,
    dram_table,
    tables_of_chips,
)
from stepsim.kernels.memory import dispatch as memory
from stepsim.lowering.network import Network, TimingParams

__all__ = ["accesses_of", "machine_globals", "memory_table"]


def machine_globals(values: NDArray[np.void], timing: TimingParams, table: MemoryTable) -> None:
    """Fill in the scalars that a machine decides."""
    values["onchip"] = timing.onchip_bytes_per_cycle
    values["request_bytes"] = timing.request_bytes
    values["slack"] = timing.closure_slack
    values["memory_channels"] = timing.hbm_channels
    values["memory_interval"] = timing.hbm_interval
    values["memory_delay"] = timing.delay
    values["memory_model"] = memory.code_of(timing.memory_model)
    values["memory_words"] = len(table.words)
    values["memory_cache"] = table.cache


def memory_table(
    timing: TimingParams,
    bundles: list[int],
    accesses: Sequence[PortAccess] = (),
    ports_of_chips: Sequence[int] = (),
) -> MemoryTable:
    """The initial table of the memory model, for ports of these bundle sizes.

    ``accesses`` gives the addresses of every port, for a model with addresses; ``ports_of_chips``
    the number of ports of every chip, where there are several, each with a memory of its own.
    """
    if ports_of_chips:
        ends = np.cumsum(ports_of_chips).tolist()
        parts = [slice(end - count, end) for end, count in zip(ends, ports_of_chips, strict=True)]
        tables = [memory_table(timing, bundles[part], accesses[part]) for part in parts]
        return tables_of_chips(timing.engine_model, tables, ports_of_chips)
    if timing.memory_model not in memory.MEMORY_MODELS:
        known = ", ".join(memory.MEMORY_MODELS)
        raise LoweringError(f"unknown memory model {timing.memory_model!r}; known are {known}")
    model = memory.MEMORY_MODELS[timing.memory_model]
    if timing.outstanding is not None:
        for make in model.bounded_tables:
            return make(timing.hbm_channels, bundles, timing.outstanding)
        if model.name not in CAN_BE_BOUNDED:
            raise LoweringError(
                f"memory model {model.name!r} takes no bound of the requests under way; "
                f"{', '.join(CAN_BE_BOUNDED)} do"
            )
        return bounded_table(model.name, timing.hbm_channels, bundles, timing.outstanding)
    if not model.addressed:
        return model.table_for(timing.hbm_channels, bundles)
    if timing.dram is None:
        raise LoweringError(f"memory model {timing.memory_model!r}: the network describes no DRAM")
    return dram_table(timing.dram, accesses)


def accesses_of(network: Network, units: list[int]) -> tuple[PortAccess, ...]:
    """The accesses of the ports of these units, for a memory model with addresses."""
    model = memory.MEMORY_MODELS.get(network.timing.memory_model)
    if model is None or not model.addressed:
        return ()
    names = [network.units[unit].name for unit in units]
    missing = [name for name in names if name not in network.accesses]
    if missing:
        raise LoweringError(
            f"{network.units[units[names.index(missing[0])]].op} '{missing[0]}': memory model "
            f"{network.timing.memory_model!r} needs an address for each of its tiles; the network "
            "gives none"
        )
    return tuple(network.accesses[name] for name in names)
