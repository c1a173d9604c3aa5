"""Random differential cases from files, as networks with the expected values."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.lowering.network import ChannelSpec, Network, TimingParams, UnitSpec

__all__ = ["Case", "cases_folder", "load_case"]

SHIPPED = Path(__file__).parents[1] / "data" / "random_cases"

# Operators whose tiles have the run-wide element size, which the files keep with the machine.
_NEED_BPE = frozenset(
    {
        "OffChipLoad",
        "DynOffChipLoad",
        "RandomOffChipLoad",
        "RandomOffChipStore",
        "Accum",
        "BinaryMapAccum",
        "Scan",
        "Reshape",
    }
)


@dataclass(frozen=True)
class Case:
    """A network and what an independent solver found for it.

    ``tokens[channel]`` holds ``[stamp, level, payload, pub]``.
    """

    name: str
    network: Network
    cycles: int
    memory_node_end: int
    final_clock: dict[str, int]
    final_pace: dict[str, int]
    tokens: dict[str, list[list[Any]]]


def cases_folder() -> Path:
    """Folder of the case files: STEPSIM_CASES, else those that are shipped."""
    return Path(os.environ.get("STEPSIM_CASES", SHIPPED))


def load_case(path: Path) -> Case:
    """Read one case file."""
    raw = json.loads(path.read_text())
    machine = raw["machine"]
    names = list(raw["channels"])
    number = {name: i for i, name in enumerate(names)}
    units = []
    for unit in raw["units"]:
        params = dict(unit["params"])
        if unit["op"] in _NEED_BPE:
            params["bpe"] = machine["float_bpe"]
        if unit["op"] == "Accum" and params["fn"] == "SignalReqAllRead":
            params["bpe"] = 8
        ins, outs = (tuple(number[name] for name in unit[side]) for side in ("in", "out"))
        units.append(UnitSpec(unit["name"], unit["op"], ins, outs, params))
    timing = timing_of(machine)
    expected = raw["expected"]
    return Case(
        name=raw["id"],
        network=Network(
            tuple(units), tuple(ChannelSpec(name, raw["channels"][name]) for name in names), timing
        ),
        cycles=expected["cycles"],
        memory_node_end=expected["memory_node_end"],
        final_clock=expected["final_clock"],
        final_pace=expected["final_pace"],
        tokens=expected["tokens"],
    )


def timing_of(machine: dict[str, Any]) -> TimingParams:
    """The numbers of a recorded machine."""
    return TimingParams(
        onchip_bytes_per_cycle=machine["onchip_bw"],
        request_bytes=machine["request_bytes"],
        hbm_channels=machine["hbm_channels"],
        hbm_interval=machine["hbm_interval"],
        hbm_latency=machine["hbm_latency"],
        hbm_startup=machine["hbm_startup"],
    )
