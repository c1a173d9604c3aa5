"""``CONFIGS``: named configurations of designs, each with its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from stepsim.arguments import shown
from stepsim.design.choices import Choices
from stepsim.errors import ArgError, did_you_mean
from stepsim.machine import Machine, load_machine


@dataclass(frozen=True, slots=True)
class Config:
    """The design of a publication.

    Attributes
    ----------
    model, machine : what was published.
    choices : options of the design.
    context : rows of the cache in decoding.
    source : where each number is from.
    """

    name: str
    model: str
    machine: str
    choices: Choices
    context: int
    source: str


_ALL = (
    Config(
        "published", "gpt2-medium", "u55c",
        Choices(
            streamed="outside", tile=64, rows=8, unroll=9_024, network_lanes=512,
            reuse_bytes=8 << 20, burst_bytes=1 << 16,
        ),
        context=511,
        source="StreamTensor (arXiv 2509.13694), tables 4 and 5: GPT-2 medium on the U55C. "
        "network_lanes: a token of a prompt adds 8.29 thousand cycles to a block (table 4), in "
        "which 512 multipliers compute the 4096 x 1024 products of a layer of the network. unroll: "
        "DSP slices of the device (AMD DS978), each one product of 4 by 8 bits in a cycle. "
        "context: the longest request of table 5, 512 tokens, the new one among them, as every "
        "token takes the same time there. The paper states neither tiles nor bursts: tile, rows, "
        "streamed, reuse_bytes and burst_bytes were chosen with its rows in view.",
    ),
)  # fmt: skip

CONFIGS: Mapping[str, Config] = MappingProxyType({one.name: one for one in _ALL})
"""Named configurations by name."""


def config_of(name: Any, machine: Machine) -> Config:
    """A configuration by name, for a machine.

    Raises
    ------
    ArgError : there is none of this name, or it is for another machine.
    """
    if not isinstance(name, str) or name not in CONFIGS:
        near = did_you_mean(name, CONFIGS)
        raise ArgError(
            f"compile: there is no config {shown(name)}{near} Known: {', '.join(CONFIGS)}"
        )
    found = CONFIGS[name]
    if machine != load_machine(found.machine):
        other = "other values of it" if machine.name == found.machine else f"machine {machine.name}"
        raise ArgError(
            f"compile: config {name} is of machine {found.machine}, found {other}; leave config "
            "out, or give its choices one by one in Python"
        )
    return found
