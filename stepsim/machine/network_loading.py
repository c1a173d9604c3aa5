"""How networks are found and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from stepsim.machine.loading import Family, load_description, parse_overrides
from stepsim.machine.network import Network
from stepsim.machine.network_presets import NETWORK_PRESETS
from stepsim.typed import typed

_FAMILY: Final = Family(
    Network, NETWORK_PRESETS, ("rows", 4), "Start from 'stepsim noc --show mesh'.", noun="network"
)


def load_network(
    network: Network | str | Path = "mesh", overrides: Mapping[str, Any] | None = None
) -> Network:
    """Get a network by the name of a preset, or by the path of a YAML file, and change values.

    Parameters
    ----------
    network : name from `list_networks`, path of a file, or a network to change.
    overrides : values by dotted key, e.g. ``{"rows": 4, "cols": 4, "flits.quantum": 16}``.

    Raises
    ------
    MachineError : no such network; the file is unreadable or not YAML; an unknown, duplicate,
        missing, mistyped or out-of-range key; a topology that does not connect its places.
    """
    return load_description(_FAMILY, network, overrides)


def list_networks() -> tuple[str, ...]:
    """Names of the built-in networks, sorted."""
    return tuple(sorted(NETWORK_PRESETS))


@typed
def parse_network_overrides(items: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` texts into the mapping that `load_network` takes as overrides.

    Raises
    ------
    MachineError : no ``=``, no value after it, an unknown key, or a key given twice.
    """
    return parse_overrides(items, _FAMILY)
