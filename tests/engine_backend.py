"""The engine behind the result protocol of the reference interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepsim.kernels.driver import Execution, execute
from stepsim.kernels.layout import TUPLE_RD, Payload, Status
from stepsim.lowering import Image, Network, build_image
from stepsim.simulation.outcome.tables import MEMORY_TAIL, run_length
from tests.oracle.payloads import retag

__all__ = ["TOKEN_FIELDS", "EngineResult", "payload_of", "run_engine", "to_result"]

TOKEN_FIELDS = (
    "stamp", "pub", "value", "rows", "cols", "off", "level", "bits", "kind", "rd",
)  # fmt: skip
"""The fields of a token in its slot."""

_STATES = {Status.DONE: "done", Status.FAILED: "failed"}


@dataclass(frozen=True)
class EngineResult:
    """Same fields as the interpreter's result."""

    cycles: int
    memory_node_end: int
    final_clock: dict[str, int]
    final_pace: dict[str, int]
    tokens: dict[str, list[tuple[int, int, Any, int]]]
    removed: dict[str, int]
    unit_status: dict[str, str]
    status: str
    accounts: dict[str, Any]
    taken: dict[str, list[int]]


def run_engine(network: Network, **options: Any) -> EngineResult:
    """Run a network on the engine with full token history."""
    image = build_image(network, always_park=True)
    return to_result(image, execute(image, history=True, **options))


def to_result(image: Image, execution: Execution) -> EngineResult:
    """Read an execution that kept its history."""
    units, channels = execution.units, execution.channels
    states = {
        n: _STATES.get(Status(s), "blocked")
        for n, s in zip(image.unit_names, units["state"], strict=True)
    }
    status = "ok"
    if "failed" in states.values():
        status = "failed"
    elif "blocked" in states.values():
        status = "deadlock"
    cycles = run_length(execution, unfinished=False)
    memory = units[(units["port"] >= 0) & (units["state"] == Status.DONE)]
    tokens: dict[str, list[tuple[int, int, Any, int]]] = {}
    taken: dict[str, list[int]] = {}
    for name, ch in zip(image.channel_names, channels, strict=True):
        slots = execution.slots[ch["start"] : ch["start"] + ch["sent"]]
        tokens[name] = [
            (int(s["stamp"]), int(s["level"]), payload_of(image, execution, s), int(s["pub"]))
            for s in slots
        ]
        taken[name] = [int(s["rel"]) - 1 for s in slots[: ch["removed"]]]
    return EngineResult(
        cycles=cycles,
        memory_node_end=int(memory["clk"].max()) + MEMORY_TAIL if len(memory) else 0,
        final_clock=_by_name(image.unit_names, units["clk"]),
        final_pace=_by_name(image.unit_names, units["h"]),
        tokens=tokens,
        removed=_by_name(image.channel_names, channels["removed"]),
        unit_status=states,
        status=status,
        accounts=_accounts(image, execution, cycles),
        taken=taken,
    )


def _by_name(names: tuple[str, ...], values: Any) -> dict[str, int]:
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def _accounts(image: Image, execution: Execution, cycles: int) -> dict[str, Any]:
    accounts = {}
    for name, un in zip(image.unit_names, execution.units, strict=True):
        horizon = max(cycles, int(un["clk"]))
        accounts[name] = {
            "busy": int(un["busy"]),
            "before": int(un["before"]),
            "after": int(un["after"]) + horizon - int(un["clk"]),
            "memory": int(un["memory"]),
            "wait_in": _waits(image, execution, int(un["in0"]), int(un["nin"]), "wait_in"),
            "wait_out": _waits(image, execution, int(un["out0"]), int(un["nout"]), "wait_out"),
        }
    return accounts


def _waits(image: Image, execution: Execution, first: int, count: int, side: str) -> dict[str, int]:
    ids = execution.params[first : first + count]
    return {image.channel_names[c]: int(execution.channels[c][side]) for c in ids}


def payload_of(image: Image, execution: Execution, slot: Any) -> Any:
    """What a slot carries, in the notation of the interpreter."""
    kind = Payload(slot["kind"])
    if kind is Payload.ACK:
        return {"ack": True}
    if kind is Payload.SELECTOR:
        width, chosen = image.selectors[slot["value"]]
        return {"selector": list(chosen), "width": width, "rd": int(slot["rd"])}
    if kind is Payload.TILE:
        bits = int(slot["bits"])
        width = bits / 8 if bits % 8 else bits // 8
        body = [int(slot["rows"]), int(slot["cols"]), width, int(slot["rd"]), int(slot["off"])]
        # Metadata and addresses are the integer tiles, 8 bytes wide, with content. A Boolean tile
        # that is true has it, too.
        with_content = body[2] == 8 or slot["value"] != 0
        return {"tile": body, "value": int(slot["value"])} if with_content else {"tile": body}
    first = int(slot["value"])
    cells = execution.slots[first + 1 : first + 1 + execution.slots[first]["rows"]]
    parts = [payload_of(image, execution, cell) for cell in cells]
    if kind is Payload.TUPLE:
        whole = {"tuple": parts}
        return whole if slot["rd"] == TUPLE_RD else retag(whole, bool(slot["rd"]))
    return {"buffer": _dims([int(cell["level"]) for cell in cells]), "tiles": parts}


def _dims(levels: list[int]) -> list[int]:
    """Dims of a rectangular buffer, outermost first, from the levels of its tiles."""
    dims = []
    for k in range(levels[-1]):
        end = next(i for i, level in enumerate(levels) if level > k)
        dims.append(sum(level >= k for level in levels[: end + 1]))
    return dims[::-1]
