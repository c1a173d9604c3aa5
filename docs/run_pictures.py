"""Pictures of what happened in runs, over time."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import elements as el
import pyarrow as pa
import pyarrow.parquet as pq

import stepsim as st
from stepsim.report.serving.series import engines_of

__all__ = ["accesses", "activity", "load", "occupancy", "over_time"]

CAUSES = {"work": el.BLUE, "access": el.GREEN, "token": el.GRAY, "slot": el.ORANGE}
"""Colors of what a unit does."""


def events(result: Any) -> list[dict[str, Any]]:
    """The events of a recorded run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        st.results.write_events(result, path)
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def occupancy(
    runs: Mapping[str, Any], fifo: str, until: int | None = None, high: float = 70.0
) -> str:
    """The slots of a FIFO in use in every cycle of some recorded runs, and its depth."""
    until = until or max(result.cycles for result in runs.values())
    scale = (el.WIDTH - el.LEFT - 20) / until
    parts, y = [], 10.0
    for name, result in runs.items():
        depth = next(row["depth"] for row in result.fifos.to_pylist() if row["name"] == fifo)
        steps = sorted(
            change
            for event in events(result)
            if event["event"] == "token" and event["name"] == fifo
            for change in ((event["begin"], 1), (event["end"], -1))
        )
        held, last = 0, min(result.cycles, until)
        points = [(el.LEFT, y + high)]
        for cycle, change in steps:
            x = el.LEFT + min(cycle, last) * scale
            points.append((x, y + high * (1 - held / (depth + 1))))
            held += change if cycle < result.cycles else 0
            points.append((x, y + high * (1 - held / (depth + 1))))
        points.append((el.LEFT + last * scale, points[-1][1]))
        parts += el.filled(points, y + high, 1.6)
        full = y + high * (1 - depth / (depth + 1))
        parts.append(
            el.line([(el.LEFT, full), (el.WIDTH - 20, full)], el.RED, 'stroke-dasharray="5 4"')
        )
        parts.append(el.text(el.LEFT - 8, full + 4, f"depth {depth}", el.RED, 'text-anchor="end"'))
        parts.append(el.text(0, y + high / 2 + 8, name, el.INK, 'font-weight="bold"'))
        parts.append(el.text(el.LEFT - 8, y + high, "0", el.FAINT, 'text-anchor="end"'))
        if result.status != "ok":
            x = el.LEFT + result.cycles * scale
            parts.append(el.line([(x, y), (x, y + high)], el.RED, 'stroke-width="2"'))
            parts.append(
                el.text(x + 6, y + high - 6, f"{result.status} at {result.cycles:,}", el.RED)
            )
        y += high + 22
    return el.svg(el.WIDTH, y + 22, [*el.axis(until, 4, y - 8), *parts])


def activity(runs: Mapping[str, Any], until: int | None = None) -> str:
    """What each unit of recorded runs does in every cycle: work, access, or wait for what."""
    until = until or max(result.cycles for result in runs.values())
    scale = (el.WIDTH - el.LEFT - 20) / until
    parts, y = [], 18.0
    seen: set[str] = set()
    for name, result in runs.items():
        note = f"{result.cycles:,} cycles"
        parts.append(
            el.text(0, y, f"{name}: {note}" if name else note, el.INK, 'font-weight="bold"')
        )
        y += 6
        found = events(result)
        for unit in result.units["name"].to_pylist():
            spans = [event for event in found if event["name"] == unit and event["event"] in
                     ("work", "access", "wait")]  # fmt: skip
            # Accesses are drawn over the waits for them, and work over both.
            spans.sort(key=lambda event: ("wait", "access", "work").index(event["event"]))
            if not any(event["event"] in ("work", "access") for event in spans):
                continue
            parts.append(el.text(0, y + 14, unit))
            parts.append(el.rect(el.LEFT, y + 3, until * scale, 14, el.FILL))
            for event in spans:
                kind = event["wait_cause"] if event["event"] == "wait" else event["event"]
                kind = next((one for one in CAUSES if one in str(kind)), "")
                if kind and event["begin"] < until:
                    seen.add(kind)
                    begin, end = event["begin"], min(event["end"], until)
                    x, wide = el.LEFT + begin * scale, max((end - begin) * scale, 0.6)
                    waits = kind in ("token", "slot")
                    top, tall = (y + 8, 4) if waits else (y + 3, 14)
                    parts.append(el.rect(x, top, wide, tall, CAUSES[kind]))
            y += el.ROW - 2
        y += 18
    words = {"work": "works", "access": "off-chip access", "token": "waits for a token",
             "slot": "waits for a slot"}  # fmt: skip
    key = {words[kind]: color for kind, color in CAUSES.items() if kind in seen}
    frame = [*el.axis(until, 4, y - 14), *el.legend(el.LEFT, y + 32, key)]
    return el.svg(el.WIDTH, y + 40, [*frame, *parts])


def accesses(runs: Mapping[str, Any]) -> str:
    """The off-chip accesses of every load and store of recorded runs: one bar, one tile."""
    until = max(result.cycles for result in runs.values())
    scale = (el.WIDTH - el.LEFT - 20) / until
    parts, y = [], 18.0
    for name, result in runs.items():
        parts.append(
            el.text(0, y, f"{name}: {result.cycles:,} cycles", el.INK, 'font-weight="bold"')
        )
        y += 8
        found = [event for event in events(result) if event["event"] == "access"]
        for unit in dict.fromkeys(event["name"] for event in found):
            parts.append(el.text(0, y + 11, unit))
            own = [event for event in found if event["name"] == unit]
            for number, event in enumerate(own):
                x, wide = el.LEFT + event["begin"] * scale, (event["end"] - event["begin"]) * scale
                parts.append(el.rect(x + 0.5, y + 2, wide - 1, 11, el.GREEN,
                                  f'fill-opacity="{0.6 if number % 2 else 1}"'))  # fmt: skip
            y += 17
        y += 20
    return el.svg(el.WIDTH, y + 22, [*el.axis(until, 4, y - 14), *parts])


def over_time(
    table: Any, columns: Mapping[str, str], high: float = 60.0, unit_of_time: str = "cycles"
) -> str:
    """Columns of a timeline, one below the other: the name of the column and its unit."""
    until = table["end"].to_pylist()[-1]
    scale = (el.WIDTH - el.LEFT - 20) / until
    parts, y = [], 10.0
    for column, unit in columns.items():
        values = table[column].to_pylist()
        most = max(values) or 1
        points = [(el.LEFT, y + high)]
        for begin, end, value in zip(table["begin"].to_pylist(), table["end"].to_pylist(),
                                     values, strict=True):  # fmt: skip
            level = y + high * (1 - value / most)
            points += [(el.LEFT + begin * scale, level), (el.LEFT + end * scale, level)]
        parts += el.filled(points, y + high, 1.4)
        words = column.replace("_", " ").removesuffix(" in use")
        parts.append(el.text(0, y + high / 2, words, el.INK, 'font-size="11"'))
        parts.append(el.text(el.LEFT - 6, y + 10, f"{max(values):,.4g} {unit}".strip(), el.FAINT,
                          'text-anchor="end" font-size="11"'))  # fmt: skip
        y += high + 16
    return el.svg(el.WIDTH, y + 22, [*el.axis(until, 4, y - 6, unit_of_time), *parts])


def load(result: Any) -> str:
    """Requests and KV blocks of a service with one replica, after each choice of its scheduler."""
    (engine,) = engines_of(result)
    held = result.summary["kv_blocks"] - engine.free
    named = {"running": engine.running, "waiting": engine.waiting, "KV_blocks_held": held}
    lines = {name: engine.line(values, 0) for name, values in named.items()}
    at = (lines["running"][0] - engine.start[0]) // 1_000_000
    table = pa.table(
        {"begin": at, "end": [*at[1:], at[-1]], **{name: own[1] for name, own in lines.items()}}
    )
    units = {"running": "requests", "waiting": "requests", "KV_blocks_held": ""}
    return over_time(table, units, unit_of_time="ms")
