"""The published values, read from a folder: points, canonical cycles, hardware, headlines."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from stepsim.errors import TraceError
from stepsim.reproduce.points import Run, RunKey

__all__ = ["HardwareRow", "HeadlineRow", "Published", "PublishedRow", "read_published"]

Row = TypeVar("Row")

POINTS: Final = "ground_truth.csv"
CANONICAL: Final = "canonical_cycles.csv"
HARDWARE: Final = "fig8_hdl.csv"
HEADLINES: Final = "paper_headlines.csv"

_MODELS: Final = {
    "SimpleExample": "swiglu",
    "Mixtral8x7B": "mixtral-8x7b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen30B cfg (head_dim 64, 8 q/kv-head)": "qwen3-30b-a3b-step",
}


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A published point. Values are None where the table has none.

    Attributes
    ----------
    figures : figures that plot it.
    archived : an earlier run, not the plotted one.
    key : which run it is; None when it is none of ours.
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
    """Everything that is published.

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
        key = run.key
        found = (r for r in self.rows if r.key == key and figure in r.figures and not r.archived)
        return next(found, None)

    def mean(self, batch: int, kv_class: str, strategy: str) -> PublishedRow | None:
        """The mean over the traces of one spread in figure 21."""
        wanted = (batch, kv_class, strategy)
        return next((r for r in self.rows if r.mean_of == wanted), None)


def read_published(folder: Path, figures: Iterable[str]) -> Published:
    """Read what is published of some figures.

    Raises
    ------
    TraceError : a file is missing or unreadable; the message names it, and the line.
    """
    hardware: Mapping[tuple[int, int], HardwareRow] = {}
    if "8" in figures:
        hardware = dict(_read(folder / HARDWARE, _hardware_row))
    return Published(
        rows=tuple(_read(folder / POINTS, _point_row)),
        canonical=dict(
            _read(folder / CANONICAL, lambda r: (r["point_id"], int(r["canonical_cycles"])))
        ),
        hardware=hardware,
        headlines=tuple(_read(folder / HEADLINES, _headline_row)),
    )


def _read(path: Path, parse: Callable[[Mapping[str, str]], Row]) -> list[Row]:
    parsed = []
    line = 1
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            for row in reader:
                line = reader.line_num
                parsed.append(parse(row))
    except FileNotFoundError as error:
        raise TraceError(
            f"{path}: is missing; expected a folder with the published values, see --data"
        ) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: is not readable as a CSV table ({error}); mend it") from error
    except KeyError as error:
        raise TraceError(f"{path}: has no column {error}; restore the table") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise TraceError(f"{path}: line {line}: {error}; mend the line") from error
    return parsed


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
    tiling = (int(row["tile_b"]), int(row["tile_inter"]))
    megabytes = float(row["hdl_traffic_mb"])
    return tiling, HardwareRow(int(row["hdl_cycles"]), round(megabytes * 1e6))


def _headline_row(row: Mapping[str, str]) -> HeadlineRow:
    return HeadlineRow(
        row["figure"], row["claim"], row["paper_value"], row["unit"],
        row["recomputed_from_recovered_data"], row["agrees"], row["note"],
    )  # fmt: skip


def _batch(row: Mapping[str, str]) -> int:
    """Rows or requests; micro-batches are added up."""
    return sum(int(part) for part in row["batch"].split("+"))


def _whole(text: str) -> int | None:
    return round(float(text)) if text else None


def _percent(text: str) -> float | None:
    return float(text) / 100 if text else None


def _leading(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None
