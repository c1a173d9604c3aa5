"""Machines of the hardware level by name, from files, and with changed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from stepsim.hardware.machine import Machine
from stepsim.machine import Family, list_machines as tile_machines, load_description, loading
from stepsim.typed import typed

_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "hdl": {
        "name": "hdl",
        "description": "The HDL with which the STeP paper was validated (Figure 8): hardware tiles "
        "of 16 x 16 fp32, one request of 512 bytes per cycle to one channel of an HBM2.",
    },
    "hdl-fair": {
        "name": "hdl-fair",
        "description": "As hdl, with an arbiter that leaves out ports that cannot be served.",
        "memory": {"arbiter": "fair"},
    },
    "hdl-spread": {
        "name": "hdl-spread",
        "description": "As hdl, with the data of every port in banks of its own.",
        "memory": {"base_step": 8192},
    },
}
"""Machines by name; values left out have their defaults."""

_ADVICE: Final = "Start from 'stepsim machines --show hdl'."

_FAMILY: Final = Family(
    Machine,
    _PRESETS,
    ("memory.pointer", 1),
    _ADVICE,
    tile_machines(),
    "the tile level; use the functions of st itself, as in st.simulate(program, '{name}'), or "
    "leave out --level hardware on the command line",
)


def list_machines() -> tuple[str, ...]:
    """Names of the built-in machines of the hardware level, sorted."""
    return tuple(sorted(_PRESETS))


def load_machine(
    machine: Machine | str | Path = "hdl", overrides: Mapping[str, Any] | None = None
) -> Machine:
    """Get a machine of the hardware level by name or from a YAML file, and change values.

    Parameters
    ----------
    machine : name from `list_machines`, path of a file, or a machine to change.
    overrides : values by dotted key, e.g. ``{"memory.pointer": 1, "dram.nCL": 8}``.

    Raises
    ------
    MachineError : no such machine or file; an unknown, duplicate, mistyped or out-of-range key.
    """
    return load_description(_FAMILY, machine, overrides)


@typed
def parse_overrides(items: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` texts into the mapping that `load_machine` takes as overrides.

    Raises
    ------
    MachineError : no ``=``, no value after it, an unknown key, or a key given twice.
    """
    return loading.parse_overrides(items, _FAMILY)
