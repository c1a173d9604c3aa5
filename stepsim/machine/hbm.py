"""Off-chip memory of a machine: its model, and what the model takes its times from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from stepsim.machine.dram import Dram
from stepsim.machine.memory_path import DRAM_OUTSTANDING, OF_EVERY_MODEL, Addresses, Port
from stepsim.machine.section import Section, choice, integer, optional, section, setting, text

# Upper limits keep every product of a run inside 64-bit integers.
MOST = 1 << 20


@section
class Hbm(Section):
    """Off-chip memory as independent channels with a fixed rhythm (STeP paper, section 4)."""

    model: str = setting(
        text(),
        "memory model; 'interleaved' sends the requests of every operator to the channels in turn, "
        "'published' is that of the STeP paper, 'uncontended' gives every operator a private "
        "memory, 'dram' has banks, rows, queues and addresses; plugins may add others",
        default="interleaved",
    )
    request_bytes: int = setting(integer(1, MOST), "bytes moved by one request")
    channels: int = setting(integer(1, 1 << 16), "number of independent channels")
    latency: int = setting(integer(0, MOST), "cycles from service to response of one request")
    interval: int = setting(
        integer(1, MOST), "cycles between the starts of two requests on the same channel"
    )
    startup: int = setting(integer(0, MOST), "cycles added to the latency of every request")
    dram: Dram | None = optional(Dram, "the DRAM of the model 'dram'")
    port: Port | None = optional(
        Port, "ports and the path of requests; all but 'outstanding' is for model 'dram'"
    )
    arbiter: str | None = optional(
        choice("rotating", "on-grant", "fair"),
        "which port may request next, for model 'dram': with 'rotating' the turn passes in every "
        "cycle, even if the request cannot be accepted; with 'on-grant' it passes after a grant; "
        "'fair' serves the port that has waited longest",
    )
    addresses: Addresses | None = optional(Addresses, "addresses of tensors, for model 'dram'")
    capacity_bytes: int | None = optional(
        integer(1, 1 << 50),
        "off-chip memory, for the weights and the KV cache of a service, and for the tensors that "
        "a program on several chips has on each; programs on one chip need not fit",
    )

    @classmethod
    def without_effect(cls, values: Mapping[Any, Any]) -> Mapping[str, str]:
        """The model 'dram' takes channels and times from its DRAM; other models have no DRAM."""
        model = values.get("model")
        if isinstance(model, str) and model == "dram":
            why = "has no effect with hbm.model 'dram', which takes it from hbm.dram; remove it"
            return dict.fromkeys(RHYTHM, why)
        return dict.fromkeys(("dram", "arbiter", "addresses"), _OF_DRAM)

    @classmethod
    def derived(cls, checked: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rhythm that comes closest to an idle DRAM, in its clocks, and the bound of a port."""
        dram, port = checked["dram"], checked["port"]
        bound = None if port is None else port.outstanding
        if dram is None:
            return {"port": port if bound is not None or _other_than_default(port) else None}
        if port is not None and bound is None:
            port = Port(**{**port.to_dict(), "outstanding": DRAM_OUTSTANDING})
        each = dram.accesses_per_clock() / dram.channels
        return {
            "port": port,
            "channels": dram.channels,
            "latency": dram.read_clocks,
            "interval": ceil(1 / each),
            "startup": 0,
        }

    @classmethod
    def completed(cls, values: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Complete the model 'dram' with a DRAM, by default the preset."""
        model = values.get("model")
        if isinstance(model, str) and model == "dram" and values.get("dram") is None:
            return {**values, "dram": {}}
        return values

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Other models have the ports of 'dram', but not its path to them."""
        if checked["model"] == "dram" or given.get("port") is None:
            return
        port = given["port"]
        named = port if isinstance(port, Mapping) else _other_than_default(port)
        for name in named:
            if name not in OF_EVERY_MODEL:
                yield f"port.{name}", _OF_DRAM

    def to_dict(self) -> dict[str, Any]:
        """Every value, defaults included, as plain dicts; absent values are left out."""
        values = super().to_dict()
        if self.model != "dram" and self.port is not None:
            values["port"] = {name: getattr(self.port, name) for name in OF_EVERY_MODEL}
        return values

    @property
    def outstanding(self) -> int | None:
        """Requests of a port that may be under way, with model 'dram' reads; None: any number."""
        stated = None if self.port is None else self.port.outstanding
        return DRAM_OUTSTANDING if stated is None and self.model == "dram" else stated


_OF_DRAM = "has an effect only with hbm.model 'dram'; set that model, or remove this"

RHYTHM = ("channels", "latency", "interval", "startup")
"""The parameters of a memory of independent channels."""


def _other_than_default(port: Port | None) -> list[str]:
    if port is None:
        return []
    return [name for name, value in port.to_dict().items() if value != Port().to_dict()[name]]
