"""The machines that stepsim ships, with the values that ``presets.json`` gives them.

The machines from ``hdl-flops`` to ``hdl-arbiter`` are a ladder from ``sda-hdl``, which has the
settings of the STeP paper's simulator, to the hardware that the paper was validated with: a
16 x 16 x 16 product and a tile of 16 x 16 f32 per cycle and unit. In its DRAM every port has an
array of its own from byte 0 on, in the order of use; a tile of 16 x 16 f32 is followed by the word
that says where dims end.

The 460 GB/s of ``u55c`` are 1,840 bytes per cycle, 57.5 for each of 32 pseudo-channels. Accesses of
whole 64-byte words at exactly that rate take another number of channels. Its memories are those of
VU47P (AMD DS890): 36.7 Mb of distributed RAM, 2,016 blocks of 36 Kb, 960 of URAM.

Machines that can be bought are in ``public_machines.json``, every value with the source that states
it or the reason why it is assumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stepsim.machine.network_presets import NETWORK_PRESETS

_FOLDER = Path(__file__).parent


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_FOLDER / name).read_text("utf-8"))
    return found


def _completed(records: dict[str, Any]) -> dict[str, Any]:
    """Records with what they take from the record that they are like."""
    for record in records.values():
        base = records.get(record.get("like"))
        if base is not None:
            record["values"] = base["values"] | record["values"]
            for remarks in ("not_public", "left_out"):
                record[remarks] = base[remarks] + record[remarks]
    return records


def _values(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a machine of which every value has a dotted key."""
    values: dict[str, Any] = {"name": name, "description": record["description"]}
    for key, value in record["values"].items():
        *sections, leaf = key.split(".")
        target = values
        for section in sections:
            target = target.setdefault(section, {})
        # A network is that of a name, with what other keys add to it.
        target[leaf] = dict(NETWORK_PRESETS[value["is"]]) if key == "noc" else value["is"]
    return values


PUBLIC_MACHINES: Final[Mapping[str, Mapping[str, Any]]] = _completed(_read("public_machines.json"))
"""What is known of machines that can be bought, by name; see `stepsim.machine.provenance`."""

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = _read("presets.json") | {
    name: _values(name, record) for name, record in PUBLIC_MACHINES.items()
}
"""The values of every machine by its name; what is left out has its default."""

HARDWARE_MACHINES: Final = ("hdl", "hdl-fair", "hdl-spread")
"""Names of the machines of the hardware level, which is above this room: messages name them."""
