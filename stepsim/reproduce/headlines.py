"""The headline numbers of the STeP paper, each as a function of the points that it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepsim.machine import load_machine
from stepsim.reproduce.families import KV_TRACES
from stepsim.reproduce.rows import geometric_mean
from stepsim.sweep import pareto_improvement_distance

__all__ = ["HEADLINES", "Headline", "MissingNumber", "Numbers", "correlation", "mean_error"]


class MissingNumber(LookupError):
    """A point is not among the rows, or has no such value."""


class Numbers:
    """Values of points by name: ours, or with ``prefix="published_"`` the published ones."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], prefix: str = "") -> None:
        self._rows = {str(row["point_id"]): row for row in rows}
        self._prefix = prefix

    def of(self, point: str, column: str) -> float:
        """A value. Raises MissingNumber when there is none."""
        value = self._rows.get(point, {}).get(self._prefix + column)
        if value is None:
            raise MissingNumber(f"{point}: {column}")
        return float(value)

    def cycles(self, point: str) -> float:
        return self.of(point, "cycles")

    def onchip(self, point: str) -> float:
        return self.of(point, "onchip_bytes")

    def speedup(self, over: str, point: str) -> float:
        """Cycles of ``over`` for each of ``point``."""
        return self.cycles(over) / self.cycles(point)

    def saving(self, over: str, point: str, column: str = "onchip_bytes") -> float:
        """Bytes of ``over`` for each of ``point``."""
        return self.of(over, column) / self.of(point, column)

    def hardware(self) -> tuple[list[float], list[float]]:
        """Cycles of the tilings that have hardware cycles, and those."""
        known = [name for name, row in self._rows.items() if row.get("hdl_cycles") is not None]
        if len(known) < 2:
            raise MissingNumber("hardware cycles")
        return [self.cycles(name) for name in known], [
            float(self._rows[name]["hdl_cycles"]) for name in known
        ]


@dataclass(frozen=True, slots=True)
class Headline:
    """A number of the paper.

    Attributes
    ----------
    figure, claim : as in the table of headlines, which is joined by them.
    value : one number or several from the points. Raises MissingNumber.
    excess : the numbers are percentages above 100; deviations are those of the whole.
    note : what keeps ours from being comparable.
    """

    figure: str
    claim: str
    unit: str
    value: Callable[[Numbers], tuple[float, ...]]
    excess: bool = False
    note: str = ""

    def deviation(self, ours: Sequence[float], theirs: Sequence[float]) -> float | None:
        """The largest relative difference; None when the numbers cannot be paired."""
        if len(ours) != len(theirs) or not ours:
            return None
        if self.excess:
            ours, theirs = [100 + a for a in ours], [100 + b for b in theirs]
        return max((a / b - 1 for a, b in zip(ours, theirs, strict=True)), key=abs)


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's correlation coefficient."""
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    pairs = [(x - mean_a, y - mean_b) for x, y in zip(a, b, strict=True)]
    covariance = math.fsum(x * y for x, y in pairs)
    return covariance / math.sqrt(
        math.fsum(x * x for x, _ in pairs) * math.fsum(y * y for _, y in pairs)
    )


def mean_error(ours: Sequence[float], reference: Sequence[float]) -> float:
    """Mean of the absolute relative differences, a fraction."""
    return math.fsum(abs(a / b - 1) for a, b in zip(ours, reference, strict=True)) / len(ours)


def _ratio(figure: str, claim: str, value: Callable[[Numbers], float], **more: Any) -> Headline:
    unit = more.pop("unit", "x")
    return Headline(figure, claim, unit, lambda n: (value(n),), **more)


def _dynamic(figure: str, model: str) -> str:
    return f"f{figure}_{model}_dyn"


def _speedup(figure: str, claim: str, model: str, tile: int) -> Headline:
    over, point = f"f{figure}_{model}_{tile}", _dynamic(figure, model)
    return _ratio(figure, claim, lambda n: n.speedup(over, point))


def _saving(
    figure: str, claim: str, model: str, *tiles: int, plotted: str = "", column: str = ""
) -> Headline:
    source = plotted or figure
    point = _dynamic(source, model)
    return Headline(
        figure, claim, "x",
        lambda n: tuple(
            n.saving(f"f{source}_{model}_{tile}", point, column or "onchip_bytes")
            for tile in tiles
        ),
    )  # fmt: skip


def _excess(figure: str, claim: str, point: str, over: str, note: str = "") -> Headline:
    return _ratio(
        figure, claim, lambda n: 100 * (n.speedup(point, over) - 1),
        unit="%", excess=True, note=note,
    )  # fmt: skip


def _share(figure: str, claim: str, column: str, point: str, over: str, note: str = "") -> Headline:
    """Percentage by which ``point`` has less than ``over``."""
    return _ratio(
        figure, claim, lambda n: 100 * (1 - n.of(point, column) / n.of(over, column)),
        unit="%", note=note,
    )  # fmt: skip


_TILES: Final = {"9": (8, 16, 32, 64), "10": (16, 32, 64, 128, 256, 512, 1024)}


def _distance(n: Numbers, figure: str, model: str) -> float:
    """PID of dynamic tiling against all static tiles, in cycles and on-chip bytes."""

    def costs(point: str) -> tuple[float, float]:
        return n.cycles(point), n.onchip(point)

    static = [costs(f"f{figure}_{model}_{tile}") for tile in _TILES[figure]]
    return pareto_improvement_distance(costs(_dynamic(figure, model)), static)


def _pid(figure: str, claim: str, model: str) -> Headline:
    return _ratio(figure, claim, lambda n: _distance(n, figure, model), unit="PID")


def _all_distances(n: Numbers) -> tuple[float, ...]:
    found = [_distance(n, figure, model) for figure in _TILES for model in ("mixtral", "qwen")]
    return min(found), max(found)


def _gains(n: Numbers, kv_class: str) -> list[float]:
    traces = [t for t in KV_TRACES if t.requests == 64 and t.kv_class == kv_class]
    return [n.speedup(f"f14_{t.first}_interleave", f"f14_{t.first}_dynamic") for t in traces]


def _span(claim: str, kv_class: str, figure: str = "14") -> Headline:
    def value(n: Numbers) -> tuple[float, ...]:
        found = _gains(n, kv_class)
        return min(found), max(found)

    return Headline(figure, claim, "x", value)


def _every_gain(n: Numbers) -> tuple[float, ...]:
    found = [gain for kv_class in ("low", "med", "high") for gain in _gains(n, kv_class)]
    found += [_over_coarse(n, batch) for batch in (16, 64)]
    return min(found), max(found)


def _over_coarse(n: Numbers, batch: int) -> float:
    return n.speedup(f"f15_b{batch}_coarse", f"f15_b{batch}_dynamic")


def _group(n: Numbers, batch: int, kv_class: str, strategy: str) -> float:
    traces = [t for t in KV_TRACES if (t.requests, t.kv_class) == (batch, kv_class)]
    names = [f"f21_b{batch}_{t.first}" for t in traces]
    return geometric_mean([n.speedup(f"{x}_{strategy}", f"{x}_dynamic") for x in names])


def _groups(n: Numbers, strategy: str) -> float:
    classes = ("high", "med", "low")
    return geometric_mean([_group(n, b, c, strategy) for b in (16, 64, 80) for c in classes])


_NO_GRAPH: Final = "graph not published: ours is inferred"


def _stack(claim: str, model: str, over: str, figure: str = "17") -> Headline:
    return _ratio(
        figure, claim, lambda n: n.speedup(f"f17_{model}_{over}", f"f17_{model}_dynamic"),
        note=_NO_GRAPH,
    )  # fmt: skip


def _stack_share(claim: str, column: str, model: str, over: str) -> Headline:
    names = f"f17_{model}_dynamic", f"f17_{model}_{over}"
    note = "" if column.startswith("allocated") else _NO_GRAPH
    return _share("17", claim, column, *names, note=note)


def _utilization(figure: str, claim: str, series: str) -> Headline:
    names = f"f12_{series}_32", f"f12_{series}_128"
    return _ratio(figure, claim, lambda n: n.saving(*names, "compute_utilization"))


def _setting(section: str, claim: str, machine: str, value: Callable[[Any], float]) -> Headline:
    return _ratio(section, claim, lambda n: value(load_machine(machine)), unit="bytes/cycle")


HEADLINES: Final = (
    _ratio(
        "8", "Pearson correlation of cycles, STeP simulator vs HDL, 15 tilings",
        lambda n: correlation(*n.hardware()), unit="r",
    ),
    _ratio(
        "8", "(derived) mean absolute relative error of STeP cycles vs HDL",
        lambda n: mean_error(*n.hardware()), unit="fraction",
    ),
    _speedup(
        "9", "Mixtral b=64: speedup of dynamic tiling over tile=16 at equal on-chip memory",
        "mixtral", 16,
    ),
    _saving("9", "Mixtral b=64: on-chip saving of dynamic vs tile=32", "mixtral", 32),
    _excess(
        "9", "Mixtral b=64: cycles of dynamic relative to tile=32",
        "f9_mixtral_dyn", "f9_mixtral_32",
    ),
    _speedup("9", "Qwen b=64: speedup of dynamic over tile=8", "qwen", 8),
    _saving("9", "Qwen b=64: on-chip saving of dynamic vs tile=8", "qwen", 8),
    _saving("9", "Qwen b=64: on-chip saving of dynamic vs tile=64", "qwen", 64),
    _excess("9", "Qwen b=64: cycles of dynamic relative to tile=64", "f9_qwen_dyn", "f9_qwen_64"),
    _pid("9", "PID of dynamic tiling, Mixtral b=64", "mixtral"),
    _pid("9", "PID of dynamic tiling, Qwen b=64", "qwen"),
    _speedup("10", "Mixtral b=1024: speedup of dynamic over tile=128", "mixtral", 128),
    _ratio(
        "10", "Mixtral b=1024: extra on-chip memory of dynamic vs tile=128",
        lambda n: n.saving("f10_mixtral_dyn", "f10_mixtral_128"), unit="x more",
    ),
    _speedup("10", "Mixtral b=1024: speedup over tile=256 at equal on-chip memory", "mixtral", 256),
    _speedup("10", "Qwen b=1024: speedup of dynamic over tile=64", "qwen", 64),
    _saving("10", "Qwen b=1024: on-chip saving vs tile=64", "qwen", 64),
    _speedup("10", "Qwen b=1024: speedup over best static (tile=1024)", "qwen", 1024),
    _saving("10", "Qwen b=1024: on-chip saving vs tile=1024", "qwen", 1024),
    _pid("10", "PID, Mixtral b=1024", "mixtral"),
    _pid("10", "PID, Qwen b=1024", "qwen"),
    Headline(
        "9;10", "PID range of dynamic tiling quoted in the introduction", "PID", _all_distances
    ),
    _utilization("12a", "static tile 32: compute utilisation gain (32 regions vs 128)", "static"),
    _excess(
        "12a", "static tile 32: cycle overhead at 32 regions", "f12_static_32", "f12_static_128",
        note="hangs on who wins a race at the end of a stream: closure slack 1 gives 0.76",
    ),
    _utilization("12b", "dynamic tile: compute utilisation gain (32 regions vs 128)", "dyn"),
    _excess("12b", "dynamic tile: cycle overhead at 32 regions", "f12_dyn_32", "f12_dyn_128"),
    _ratio(
        "12", "total FLOPs of static tile 32 relative to dynamic (padding)",
        lambda n: n.saving("f12_static_128", "f12_dyn_128", "flops"),
    ),
    _share(
        "13", "allocated compute freed at 32 regions", "allocated_flops_per_cycle",
        "f12_static_32", "f12_static_128",
    ),
    _share(
        "13", "allocated on-chip memory freed at 32 regions", "onchip_bytes",
        "f12_static_32", "f12_static_128",
    ),
    _span("dynamic vs interleaved, low KV variation (3 traces)", "low"),
    _span("dynamic vs interleaved, high KV variation (3 traces)", "high"),
    _span("dynamic vs interleaved, medium KV variation (3 traces; not quoted in text)", "med"),
    _ratio("15", "dynamic vs coarse at batch 16", lambda n: _over_coarse(n, 16)),
    _ratio("15", "dynamic vs coarse at batch 64", lambda n: _over_coarse(n, 64)),
    Headline(
        "14;15", "speedup range of dynamic parallelisation quoted in the introduction", "x",
        _every_gain,
    ),
    _stack("Mixtral end-to-end speedup over memory-matched static", "mixtral", "mem_matched"),
    _stack("Qwen end-to-end speedup over memory-matched static", "qwen", "mem_matched"),
    _stack("Mixtral speedup over performance-matched static", "mixtral", "perf_matched"),
    _stack("Qwen speedup over performance-matched static", "qwen", "perf_matched"),
    _stack_share("Qwen on-chip memory reduction vs memory-matched", "onchip_bytes", "qwen",
                 "mem_matched"),
    _stack_share("Qwen compute reduction", "allocated_flops_per_cycle", "qwen", "mem_matched"),
    _stack_share("Mixtral on-chip reduction vs performance-matched", "onchip_bytes", "mixtral",
                 "perf_matched"),
    _stack_share("Qwen on-chip reduction vs performance-matched", "onchip_bytes", "qwen",
                 "perf_matched"),
    _stack("up to 1.27x end-to-end", "mixtral", "mem_matched"),
    _saving("19", "Mixtral on-chip saving annotation", "mixtral", 32, plotted="9"),
    _saving("19", "Qwen on-chip saving annotations", "qwen", 8, 64, plotted="9"),
    _saving("19", "Qwen traffic saving vs tile=8", "qwen", 8, plotted="9", column="offchip_bytes"),
    _saving(
        "20", "Mixtral traffic saving vs tile=256", "mixtral", 256,
        plotted="10", column="offchip_bytes",
    ),
    _saving(
        "20", "Qwen traffic saving vs tile=64", "qwen", 64, plotted="10", column="offchip_bytes"
    ),
    _saving("20", "Qwen on-chip saving vs tile=1024", "qwen", 1024, plotted="10"),
    _ratio(
        "21", "geomean over 9 groups: interleaved / dynamic", lambda n: _groups(n, "interleave")
    ),
    _ratio("21", "geomean over 9 groups: coarse / dynamic", lambda n: _groups(n, "coarse")),
    Headline(
        "21", "off-scale bar labels, coarse at B=16 (high, med, low)", "x",
        lambda n: tuple(_group(n, 16, c, "coarse") for c in ("high", "med", "low")),
    ),
    _ratio(
        "abstract", "dynamic parallelisation latency improvement", lambda n: _over_coarse(n, 16)
    ),
    _utilization("abstract", "time-multiplexing utilisation improvement", "static"),
    _setting(
        "setup", "on-chip memory unit bandwidth", "sda-1024", lambda m: m.onchip.bytes_per_cycle
    ),
    _setting("setup", "off-chip bandwidth", "sda-1024", lambda m: m.peak_bandwidth),
    _setting(
        "setup", "on-chip bandwidth for the HDL validation", "sda-hdl",
        lambda m: m.onchip.bytes_per_cycle,
    ),
)  # fmt: skip
"""All of them, in the order of the paper's figures."""
