"""The time of each resource alone, and in one sentence what bounds a run.

This is derived from the totals. If the file of a run has the result of `stepsim why`, which reruns
the program, that is shown instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from stepsim.report.html.chips import link_names

_NEAR: Final = 0.8
"""Least share of a resource at which it is reported to bound a run."""


def bounds(
    row: Mapping[str, Any], units: pa.Table, links: pa.Table | None = None
) -> list[dict[str, Any]]:
    """The least cycles that each resource needs for the work of the run, largest first.

    Each has ``kind``; the operator it belongs to as ``target``, which may be empty; the amount
    ``used`` and the capacity over the run ``peak``, both in ``unit``; ``share``, which is
    used / peak; and ``bound``, the cycles that it takes alone. ``links`` are those of a network on
    chip, which take a flit a cycle, or those between chips.
    """
    cycles = row["cycles"]
    found = []
    bandwidth = row.get("peak_bandwidth")
    if bandwidth and row.get("bandwidth_utilization") is not None:
        found.append(_bound("hbm_bandwidth", row["bus_bytes"], bandwidth, "bytes", cycles))
    compute = row.get("allocated_flops_per_cycle")
    # Published counts are not those of the run, and may need more time than it took.
    own = row.get("counting") != "published"
    if compute and own and row.get("flops") is not None:
        found.append(_bound("compute", row["flops"], compute, "FLOPs", cycles))
    if units.num_rows:
        busy = units["busy"].to_numpy()
        top = int(np.argmax(busy))
        name = units["name"][top].as_py()
        found.append(_bound("busiest_operator", int(busy[top]), 1, "cycles", cycles, name))
    if links is not None and links.num_rows:
        found.append(_busiest_link(row, links))
    return sorted(found, key=lambda one: -one["bound"])


def _busiest_link(row: Mapping[str, Any], links: pa.Table) -> dict[str, Any]:
    on_chip = "link_flits" in links.schema.names
    amount, unit = ("link_flits", "flits") if on_chip else ("link_busy_cycles", "cycles")
    amounts = links[amount].to_numpy()
    top = int(np.argmax(amounts))
    name = links["link_name"][top].as_py() if on_chip else link_names(row, links)[top]
    return _bound("link", int(amounts[top]), 1, unit, row["cycles"], name)


def _bound(
    kind: str, used: int, rate: float, unit: str, cycles: int, target: str = ""
) -> dict[str, Any]:
    """The bound of a resource with ``rate`` per cycle."""
    return {
        "kind": kind,
        "target": target,
        "used": used,
        "peak": rate * cycles,
        "unit": unit,
        "share": used / (rate * cycles) if cycles else 0.0,
        "bound": math.ceil(used / rate),
    }


_TEXTS: Final = {
    "hbm_bandwidth": "off-chip bandwidth",
    "compute": "the compute of all operators",
    "busiest_operator": "the work of one operator",
    "link": "one link of the network",
}


def verdict(row: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """``kind`` and ``sentence``: what bounds the run, judging from the totals."""
    status = row["status"]
    if status != "ok":
        kinds = {
            "deadlock": "The run ended in a deadlock",
            "failed": "An operator failed",
            "limit": "The run reached a limit",
        }
        return {
            "kind": status,
            "sentence": f"{kinds.get(status, status)} after {row['cycles']:,} cycles.",
        }
    if not row["cycles"]:
        return {"kind": "empty", "sentence": "The run took no time."}
    top = found[0]
    what = _TEXTS[top["kind"]] + (f", {top['target']}" if top["target"] else "")
    if top["share"] >= _NEAR:
        sentence = (
            f"Bound by {what}: it alone needs {top['bound']:,} of the {row['cycles']:,} cycles "
            f"({top['share']:.1%})."
        )
        return {"kind": top["kind"], "sentence": sentence}
    return {
        "kind": "unexplained",
        "sentence": f"No resource is near its peak: the one that is used most, {what}, needs "
        f"{top['share']:.1%} of the cycles. Waits, latency and imbalance are the rest.",
    }
