"""Rows of the registry: the units that carry tokens over a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepsim.kernels.units import carriers
from stepsim.lowering.rows.row import EncodeOne, Parameters, Row

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec


def _send(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    path = [int(port) for port in spec.params["path"]]
    return {
        "network": builder.carriage_record(spec),
        "flit_bytes": builder.flit_bytes,
        "route": int(spec.params["route"]),
        "receiver": int(spec.params["receiver"]),
        "length": len(path),
        "path": path,
    }


def _multicast(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    path, before, ends = (spec.params[name] for name in ("path", "before", "ends"))
    length = len(path)
    first_behind = {at: k for k, at in reversed(list(enumerate(before)))}
    leads_to = [first_behind.get(k, 0) for k in range(length)]
    readers = [0] * length
    for reader, at in reversed(list(enumerate(ends))):
        leads_to[at] = length + reader
        readers[at] += 1
    lasts = [k + 1 == length or before[k + 1] != before[k] for k in range(length)]
    ends_of = [2 * count + last for count, last in zip(readers, lasts, strict=True)]
    return {
        "network": builder.carriage_record(spec),
        "flit_bytes": builder.carriage.flit_bytes,
        "route": int(spec.params["route"]),
        "length": length,
        "tree": [*path, *leads_to, 0, *before[1:], *ends_of, *spec.params["receivers"]],
    }


def _receive(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"route": int(spec.params["route"])}


def _many_send(builder: ImageBuilder, first: UnitSpec) -> EncodeOne:
    record, flit_bytes = builder.carriage_record(first), builder.flit_bytes

    def encoded(its: Mapping[str, Any]) -> Sequence[int]:
        path = its["path"]
        return (record, flit_bytes, its["route"], its["receiver"], len(path), *path)

    return encoded


def _many_receive(builder: ImageBuilder, first: UnitSpec) -> EncodeOne:
    return lambda its: (its["route"],)


CARRIER_ROWS: Final[Mapping[str, Row]] = {
    "SendPacket": Row(carriers.SEND, _send, many=_many_send),
    "MulticastPacket": Row(carriers.MULTICAST, _multicast),
    "ReceivePacket": Row(carriers.RECEIVE, _receive, many=_many_receive),
    "SendMessage": Row(carriers.SEND, _send),
    "ReceiveMessage": Row(carriers.RECEIVE, _receive),
}
