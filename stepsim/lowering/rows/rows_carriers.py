"""Rows of the registry: the units that carry tokens over a network on chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stepsim.kernels.units import carriers
from stepsim.lowering.rows.row import Parameters, Row

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec


def _send(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    path = [int(port) for port in spec.params["path"]]
    return {
        "network": builder.carriage_record(spec),
        "flit_bytes": builder.carriage.flit_bytes,
        "route": int(spec.params["route"]),
        "receiver": int(spec.params["receiver"]),
        "length": len(path),
        "path": path,
    }


def _receive(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"route": int(spec.params["route"])}


CARRIER_ROWS: Final[Mapping[str, Row]] = {
    "SendPacket": Row(carriers.SEND, _send),
    "ReceivePacket": Row(carriers.RECEIVE, _receive),
}
