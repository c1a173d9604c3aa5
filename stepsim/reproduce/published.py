"""The published values: points, canonical cycles, hardware, headlines, each row with its source.

They are in ``published.csv`` next to this file. Its rows are points and headlines; the columns of
points use the terms of the publications.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from stepsim.reproduce.points import Run

_MODELS: Final = {
    "SimpleExample": "swiglu",
    "Mixtral8x7B": "mixtral-8x7b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen30B cfg (head_dim 64, 8 q/kv-head)": "qwen3-30b-a3b-step",
}

_MACHINES: Final = ("sda-1024", "sda-hdl")

_HARDWARE: Final = "f8_hdl_"
"""Prefix of the names of the hardware points plotted in figure 8."""


class RunKey(NamedTuple):
    """The identity of a published run, in the terms of its table.

    ``tile`` counts rows; it is empty for attention. ``fifo_depth`` is None for decoders, whose
    depth is not published. ``machine`` is empty for the machines of the publications, on which all
    rows of the table ran; a run on another machine, or at another level, is not a published run.
    """

    model: str
    batch: int
    trace: str
    strategy: str
    tile: str
    tile_inter: int | None
    regions: int | None
    fifo_depth: int | None
    machine: str = ""


def run_key(run: Run) -> RunKey:
    """Identity of a run among the published ones, which have neither slack nor reserved tokens."""
    given, decoder = run.parameters, run.workload == "decoder"
    return RunKey(
        model=given.get("model", run.workload),
        batch=given.get("batch", run.batch),
        trace="" if decoder else run.routing or run.lengths,
        strategy=given.get("variant", given.get("strategy", "")),
        tile=str(given.get("tile", "")),
        tile_inter=given.get("tile_inter"),
        regions=given.get("regions") if run.workload == "moe" else None,
        fifo_depth=None if decoder else given.get("fifo_depth"),
        machine="" if run.machine in _MACHINES else run.machine,
    )


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A published point. Values are None where the table has no entry.

    Attributes
    ----------
    figures : figures that plot it.
    archived : an earlier run, not the plotted one.
    key : the identity of its run; None if it is not one of our runs.
    compute_utilization, bandwidth_utilization : fractions, two decimals of a percent.
    ratio : normalized value of the figures that show ratios only.
    mean_of : batch, spread and strategy, of a point that is a mean over traces.
    """

    point_id: str
    figures: frozenset[str]
    archived: bool
    key: RunKey | None
    cycles: int | None
    offchip_bytes: int | None
    onchip_bytes: int | None
    flops: int | None
    padded_flops: int | None
    allocated_flops: int | None
    compute_utilization: float | None
    bandwidth_utilization: float | None
    ratio: float | None
    mean_of: tuple[int, str, str] | None


class HardwareRow(NamedTuple):
    """Cycles and off-chip bytes of the hardware validation for one tiling."""

    cycles: int
    offchip_bytes: int


class HeadlineRow(NamedTuple):
    """A headline as printed, and recomputed from the published data; texts as in the table."""

    figure: str
    claim: str
    printed: str
    unit: str
    recomputed: str
    agrees: str
    note: str


@dataclass(frozen=True, slots=True)
class Published:
    """All published values.

    Attributes
    ----------
    canonical : cycles under the canonical rules, by point.
    hardware : by rows and columns per tile.
    """

    rows: tuple[PublishedRow, ...]
    canonical: Mapping[str, int]
    hardware: Mapping[tuple[int, int], HardwareRow]
    headlines: tuple[HeadlineRow, ...]

    def plotted(self, figure: str, run: Run) -> PublishedRow | None:
        """The point of a figure that shows a run."""
        key = run_key(run)
        found = (r for r in self.rows if r.key == key and figure in r.figures and not r.archived)
        return next(found, None)

    def mean(self, batch: int, kv_class: str, strategy: str) -> PublishedRow | None:
        """The mean over the traces of one spread in figure 21."""
        wanted = (batch, kv_class, strategy)
        return next((r for r in self.rows if r.mean_of == wanted), None)


def table_rows(kind: str) -> list[dict[str, str]]:
    """Unconverted rows of the shipped table, of kind ``point`` or ``headline``."""
    text = resources.files("stepsim.reproduce").joinpath("published.csv").read_text("utf-8")
    return [row for row in csv.DictReader(text.splitlines(), strict=True) if row["row"] == kind]


@cache
def published() -> Published:
    """The contents of the shipped table."""
    points = table_rows("point")
    canonical = {p["point_id"]: _whole(p["canonical_cycles"]) for p in points}
    return Published(
        rows=tuple(map(_point_row, points)),
        canonical={name: cycles for name, cycles in canonical.items() if cycles is not None},
        hardware=dict(_hardware_row(p) for p in points if p["point_id"].startswith(_HARDWARE)),
        headlines=tuple(map(_headline_row, table_rows("headline"))),
    )


def _point_row(row: Mapping[str, str]) -> PublishedRow:
    figures = row["figure"].split(" ")[0].split(";")
    archived = "(" in row["figure"] or "artifact" in row["variant"]
    return PublishedRow(
        point_id=row["point_id"],
        figures=frozenset(name.rstrip("ab") for name in figures),
        archived=archived,
        key=_key(row),
        cycles=_whole(row["cycles"]),
        offchip_bytes=_whole(row["off_chip_bytes"]),
        onchip_bytes=_whole(row["on_chip_bytes"]),
        flops=_whole(row["flops"]),
        padded_flops=_whole(row["padded_flops"]),
        allocated_flops=_whole(row["allocated_flops"]),
        compute_utilization=_percent(row["utilization_pct"]),
        bandwidth_utilization=_percent(row["offchip_bw_util_pct"]),
        ratio=float(row["normalized_value"]) if row["normalized_value"] else None,
        mean_of=(_batch(row), row["kv_len_class"], row["variant"].split(" ")[1])
        if "geomean" in row["variant"]
        else None,
    )


def _key(row: Mapping[str, str]) -> RunKey | None:
    model, workload, variant = _MODELS.get(row["model"]), row["workload"], row["variant"]
    if model is None or variant.startswith("HDL") or "geomean" in variant:
        return None
    attention, decoder = workload.startswith("attention"), workload.startswith("end-to-end")
    strategy = ""
    if attention or decoder:
        strategy = "dynamic" if variant.startswith("dynamic") else variant.split(" ")[-1]
    return RunKey(
        model=model,
        batch=_batch(row),
        trace=row["trace_file"].split(" ")[0],
        strategy=strategy,
        tile="" if attention else row["tile_N"],
        tile_inter=None if attention else _leading(row["tile_F"]),
        regions=int(row["par_regions"]) if "time-multiplexing" in workload else None,
        fifo_depth=None if decoder else _leading(row["base_channel_depth"].removeprefix("None->")),
    )


def _hardware_row(row: Mapping[str, str]) -> tuple[tuple[int, int], HardwareRow]:
    tiling = (int(row["tile_N"]), int(row["tile_F"]))
    return tiling, HardwareRow(int(row["cycles"]), int(row["off_chip_bytes"]))


def _headline_row(row: Mapping[str, str]) -> HeadlineRow:
    return HeadlineRow(
        row["figure"], row["claim"], row["printed"], row["unit"], row["recomputed"],
        row["agrees"], row["notes"],
    )  # fmt: skip


def _batch(row: Mapping[str, str]) -> int:
    """Rows or requests; micro-batches are summed."""
    return sum(int(part) for part in row["batch"].split("+"))


def _whole(text: str) -> int | None:
    return round(float(text)) if text else None


def _percent(text: str) -> float | None:
    return float(text) / 100 if text else None


def _leading(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None
