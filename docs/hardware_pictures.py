"""Pictures of hardware: the banks of a DRAM, and the units and queues of the hardware level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import elements as el
from graph_pictures import beside, boxes_of

__all__ = ["banks", "queues", "units"]

_ROWS = {
    "row hit": el.BLUE,
    "row opened in an idle bank": el.GREEN,
    "row conflict, another row closed first": el.RED,
}
"""How an access finds its row, and its color."""

_OPEN = f"{el.GRAY}50"


def banks(run: Any, channel: int = 0) -> str:
    """What every bank of a channel does over time: the rows that are open in it, and its accesses.

    ``run`` is a run of ``st.dram`` with the log of its commands. The first access after a row was
    opened waited for that, and for the row that was closed for it.
    """
    found = [row for row in run.commands().to_pylist() if row["channel"] == channel]
    names = sorted({row["bank"] for row in found if row["bank"] is not None})
    until = max(row["clock"] for row in found) + 1
    scale, high = (el.WIDTH - el.LEFT - 20) / until, 20.0
    parts = []
    for number, bank in enumerate(names):
        y = number * high + 6
        parts.append(el.text(0, y + 11, f"bank {bank}"))
        opened, kind, used = None, "", False
        own = [row for row in found if row["bank"] == bank]
        for row in [*own, {"clock": until, "command": "PRE"}]:
            x = el.LEFT + row["clock"] * scale
            if row["command"] == "ACT":
                opened, used = x, False
                kind = list(_ROWS)[2 if kind == "closed" else 1]
            elif row["command"] == "PRE":
                if opened is not None:
                    parts.insert(0, el.rect(opened, y + 2, x - opened, 12, _OPEN))
                opened, kind = None, "closed"
            else:
                color = _ROWS["row hit" if used else kind]
                parts.append(el.rect(x, y, 2.0, 16, color))
                used = True
    bottom = len(names) * high + 6
    key = {**_ROWS, "row open": _OPEN}
    frame = [*el.axis(until, 4, bottom, "clocks"), *el.legend(0, bottom + 44, key)]
    return el.svg(el.WIDTH, bottom + 50, [*frame, *parts])


def units(network: Any, result: Any) -> str:
    """The units of a network of hardware with the cycles in which they fired, and its FIFOs.

    An edge is a FIFO, or several with wires between them, and has the mean number of messages and
    the places for them; those that are more than a third full are orange. FIFOs by which a unit
    sends to itself are left out.
    """
    wires = {unit.inputs[0]: unit.outputs[0] for unit in network.units if unit.kind == "wire"}
    shown = [unit for unit in network.units if unit.kind != "wire"]
    readers = {fifo: number for number, unit in enumerate(shown) for fifo in unit.inputs}
    named = []
    for unit in shown:
        fired = result.units[unit.name].firings
        words = f"{unit.function or unit.kind}, {fired:,} firings, {fired / result.cycles:.0%}"
        memory = unit.kind in ("reader", "writer")
        named.append((unit.name, words, el.GREEN if memory else el.FAINT))
    edges = []
    for number, unit in enumerate(shown):
        for fifo in unit.outputs:
            held, depth, last = 0.0, 0, fifo
            while True:
                held += result.fifos[last].mean
                depth += result.fifos[last].depth
                if last not in wires:
                    break
                last = wires[last]
            if readers.get(last, number) != number:
                color = el.ORANGE if held > depth / 3 else el.FAINT
                edges.append((number, readers[last], f"{held:.1f} of {depth}", color))
    return beside([("", boxes_of(named, edges, 40.0))])


def queues(result: Any, named: Mapping[str, str], high: float = 34.0) -> str:
    """The messages in FIFOs of a traced run of the hardware level in every cycle, and the depth."""
    changes: dict[str, list[tuple[int, int]]] = {fifo: [] for fifo in named}
    for event in result.events.to_pylist():
        if event["event"] in ("put", "get") and event["place"] in changes:
            # What is put in a cycle is there in the next, and what is taken leaves room then.
            step = 1 if event["event"] == "put" else -1
            changes[event["place"]].append((event["cycle"] + 1, step))
    scale = (el.WIDTH - el.LEFT - 20) / result.cycles
    parts, y = [], 10.0
    for fifo, words in named.items():
        depth = result.fifos[fifo].depth
        most = max(result.fifos[fifo].peak, 1) if depth > 8 else depth
        held, points = 0, [(el.LEFT, y + high)]
        for cycle, step in changes[fifo]:
            x = el.LEFT + min(cycle, result.cycles) * scale
            points.append((x, y + high * (1 - held / most)))
            held += step
            points.append((x, y + high * (1 - held / most)))
        points.append((el.LEFT + result.cycles * scale, points[-1][1]))
        parts += el.filled(points, y + high, 1.0)
        parts.append(el.text(0, y + high - 6, words))
        about = f"{most} of {depth}" if most < depth else f"{depth}"
        parts.append(el.text(el.LEFT - 6, y + 9, about, el.FAINT,
                             'text-anchor="end" font-size="11"'))  # fmt: skip
        y += high + 12
    return el.svg(el.WIDTH, y + 30, [*el.axis(result.cycles, 4, y - 4), *parts])
