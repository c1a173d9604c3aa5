"""Figures 14, 15 and 21: ways of sharing decode attention among regions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stepsim.report import style
from stepsim.reproduce.figure import Figure, Ratio, Row, Rows, legend, values
from stepsim.reproduce.headline import Headline, Numbers, ratio
from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.published import Published
from stepsim.reproduce.settings import (
    KV_TRACES,
    MEDIAN_TRACE,
    QWEN,
    STRATEGIES,
    KVTrace,
    published_run,
    published_settings,
)
from stepsim.results import geometric_mean
from stepsim.workloads import Attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_SPREADS = {"low": "low", "med": "medium", "high": "high"}
_BATCHES = {16: "16 requests", 64: "64 requests", 80: "64 + 16 requests"}


def attention_run(trace: KVTrace, strategy: str, batch: int | None = None) -> Run:
    """A window of requests, or its first ``batch``, shared in one of the ways."""
    requests = trace.requests if batch is None else batch
    config = published_settings(Attention, trace.requests, model=QWEN, strategy=strategy)
    given = {name: config[name] for name in ("regions", "max_length", "fifo_depth")}
    given |= {"model": config["shape"].name, "strategy": strategy}
    return published_run("attention", given, batch=requests, lengths=trace.file)


def _gain_points() -> Iterable[Point]:
    windows = {t.first: t for t in KV_TRACES if t.requests == 64}
    for first in (4185, 2019, 271, 4007, 3123, 733, 3239, 1727, 961):
        trace = windows[first]
        for strategy in ("interleaved", "dynamic"):
            name = f"f14_{first}_{STRATEGIES[strategy]}"
            yield Point("14", name, strategy, attention_run(trace, strategy), trace.kv_class)


def _batch_points() -> Iterable[Point]:
    for batch in (16, 32, 48, 64):
        for strategy in ("coarse", "dynamic"):
            run = attention_run(MEDIAN_TRACE, strategy, batch)
            name = f"f15_b{batch}_{STRATEGIES[strategy]}"
            yield Point("15", name, strategy, run, MEDIAN_TRACE.kv_class)


def _mean_points() -> Iterable[Point]:
    for trace in KV_TRACES:
        for strategy, short in STRATEGIES.items():
            name = f"f21_b{trace.requests}_{trace.first}_{short}"
            yield Point("21", name, strategy, attention_run(trace, strategy), trace.kv_class)


def _draw_gains(rows: Rows) -> Picture:
    """Figure 14: gain of dynamic over interleaved sharing for each trace."""
    title = "Figure 14: decode attention, dynamic against interleaved sharing, 64 requests"
    picture, (axes,) = style.panels(1, width=7.2, height=3, title=title)
    own = [row for row in rows if row["series"] == "dynamic"]
    x = [i + 0.6 * list(_SPREADS).index(row["kv_class"]) for i, row in enumerate(own)]
    ratios = values(own, "ratio")
    style.bars(axes, x, ratios, values(own, "published_ratio"), style.COLORS["dynamic"])
    axes.set_xticks(x, [row["point_id"].split("_")[1] for row in own])
    for kv_class, name in _SPREADS.items():
        places = [a for a, row in zip(x, own, strict=True) if row["kv_class"] == kv_class]
        axes.annotate(
            f"{name} spread", (sum(places) / len(places), -0.16),
            xycoords=("data", "axes fraction"), ha="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_xlabel("first request of the window, by spread of the KV lengths", labelpad=22)
    axes.set_ylabel("speedup of dynamic sharing")
    axes.axhline(1, color=style.INK, linewidth=0.8)
    axes.set_ylim(0, 1.15 * max(ratios))
    legend(picture, [style.solid_mark(style.COLORS["dynamic"], "dynamic", "s")], rows)
    return picture


def _draw_batches(rows: Rows) -> Picture:
    """Figure 15: coarse and dynamic sharing over the batch."""
    title = "Figure 15: decode attention, coarse and dynamic sharing"
    picture, (axes,) = style.panels(1, width=6, height=3, title=title)
    batches = sorted({row["batch"] for row in rows})
    for offset, series in ((-0.2, "coarse"), (0.2, "dynamic")):
        own = [row for row in rows if row["series"] == series]
        x = [batches.index(row["batch"]) + offset for row in own]
        ours = values(own, "cycles", 1e3)
        theirs = values(own, "published_cycles", 1e3)
        style.bars(axes, x, ours, theirs, style.COLORS[series], 0.38)
        if series == "dynamic":
            for place, height, row in zip(x, ours, own, strict=True):
                axes.annotate(
                    f"{row['ratio']:.2f}x", (place, height), xytext=(0, 7),
                    textcoords="offset points", ha="center", fontsize=8,
                    color=style.COLORS[series],
                )  # fmt: skip
    axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    axes.set_xlabel("requests")
    axes.set_ylabel("time (thousand cycles)")
    axes.set_ylim(0, 1.15 * max(values(rows, "cycles", 1e3)))
    entries = [style.solid_mark(style.COLORS[s], s, "s") for s in ("coarse", "dynamic")]
    legend(picture, entries, rows)
    return picture


def _draw_means(rows: Rows) -> Picture:
    """Figure 21: time of the static ways over that of the dynamic one, mean of three traces."""
    title = "Figure 21: decode attention, time over that of dynamic sharing"
    picture, axes = style.panels(3, width=3, height=3, title=title)
    means = [row for row in rows if row.get("status") is None]
    for panel, (batch, name) in zip(axes, _BATCHES.items(), strict=True):
        for offset, series in ((-0.2, "coarse"), (0.2, "interleaved")):
            own = [row for row in means if (row["batch"], row["series"]) == (batch, series)]
            own.sort(key=lambda row: list(_SPREADS).index(row["kv_class"]))
            x = [i + offset for i in range(len(own))]
            ours = values(own, "ratio")
            theirs = values(own, "published_ratio")
            style.bars(panel, x, ours, theirs, style.COLORS[series], 0.38)
            for place, height in zip(x, ours, strict=True):
                panel.annotate(
                    f"{height:.2f}", (place, height), xytext=(0, 7), fontsize=7,
                    textcoords="offset points", ha="center",
                )  # fmt: skip
        panel.axhline(1, color=style.COLORS["dynamic"], linewidth=1)
        panel.set_xticks(range(len(_SPREADS)), list(_SPREADS.values()))
        panel.set_title(name)
        panel.set_xlabel("spread of the KV lengths")
        panel.set_ylim(0, 1.15 * max(values(means, "ratio")))
    axes[0].set_ylabel("time / time of dynamic sharing")
    entries = [style.solid_mark(style.COLORS[s], s, "s") for s in ("coarse", "interleaved")]
    dynamic = style.solid_mark(style.COLORS["dynamic"], "dynamic = 1", "_")
    legend(picture, [*entries, dynamic], means, "published_ratio")
    return picture


def _mean_rows(rows: Rows, published: Published | None) -> list[Row]:
    """Figure 21: means over the traces of each batch and spread."""
    cycles: dict[tuple[int, str, str], list[int]] = {}
    for row in rows:
        cycles.setdefault((row["batch"], row["kv_class"], row["series"]), []).append(row["cycles"])
    found = []
    for (batch, kv_class, series), own in cycles.items():
        if series == "dynamic":
            continue
        dynamic = cycles[batch, kv_class, "dynamic"]
        mean = geometric_mean([a / b for a, b in zip(own, dynamic, strict=True)])
        short = "interleave" if series == "interleaved" else series
        row = {
            "figure": "21",
            "point_id": f"f21_b{batch}_{kv_class}_{short}_geomean",
            "workload": "attention",
            "model": rows[0]["model"],
            "batch": batch,
            "series": series,
            "kv_class": kv_class,
            "ratio": mean,
            "ratio_of": "geometric mean over 3 traces of cycles / dynamic cycles",
        }
        theirs = None if published is None else published.mean(batch, kv_class, series)
        if theirs is not None and theirs.ratio is not None:
            row |= {"published_ratio": theirs.ratio, "ratio_relative": mean / theirs.ratio - 1}
        found.append(row)
    return found


def _gains(n: Numbers, kv_class: str) -> list[float]:
    traces = [t for t in KV_TRACES if t.requests == 64 and t.kv_class == kv_class]
    return [n.speedup(f"f14_{t.first}_interleave", f"f14_{t.first}_dynamic") for t in traces]


def _span(claim: str, kv_class: str) -> Headline:
    def value(n: Numbers) -> tuple[float, ...]:
        found = _gains(n, kv_class)
        return min(found), max(found)

    return Headline("14", claim, "x", value)


def _every_gain(n: Numbers) -> tuple[float, ...]:
    found = [gain for kv_class in ("low", "med", "high") for gain in _gains(n, kv_class)]
    found += [over_coarse(n, batch) for batch in (16, 64)]
    return min(found), max(found)


def over_coarse(n: Numbers, batch: int) -> float:
    """Speedup of dynamic over coarse sharing of a batch."""
    return n.speedup(f"f15_b{batch}_coarse", f"f15_b{batch}_dynamic")


def _group(n: Numbers, batch: int, kv_class: str, strategy: str) -> float:
    traces = [t for t in KV_TRACES if (t.requests, t.kv_class) == (batch, kv_class)]
    names = [f"f21_b{batch}_{t.first}" for t in traces]
    return geometric_mean([n.speedup(f"{x}_{strategy}", f"{x}_dynamic") for x in names])


def _groups(n: Numbers, strategy: str) -> float:
    classes = ("high", "med", "low")
    return geometric_mean([_group(n, b, c, strategy) for b in (16, 64, 80) for c in classes])


_GAINS: Final = (
    _span("dynamic vs interleaved, low KV variation (3 traces)", "low"),
    _span("dynamic vs interleaved, high KV variation (3 traces)", "high"),
    _span("dynamic vs interleaved, medium KV variation (3 traces; not quoted in text)", "med"),
)  # fmt: skip

_BATCH_GAINS: Final = (
    ratio("15", "dynamic vs coarse at batch 16", lambda n: over_coarse(n, 16)),
    ratio("15", "dynamic vs coarse at batch 64", lambda n: over_coarse(n, 64)),
    Headline(
        "14;15", "speedup range of dynamic parallelisation quoted in the introduction", "x",
        _every_gain,
    ),
)  # fmt: skip

_MEANS: Final = (
    ratio(
        "21", "geomean over 9 groups: interleaved / dynamic", lambda n: _groups(n, "interleave")
    ),
    ratio("21", "geomean over 9 groups: coarse / dynamic", lambda n: _groups(n, "coarse")),
    Headline(
        "21", "off-scale bar labels, coarse at B=16 (high, med, low)", "x",
        lambda n: tuple(_group(n, 16, c, "coarse") for c in ("high", "med", "low")),
    ),
)  # fmt: skip

GAINS: Final = Figure(
    "14",
    points=_gain_points,
    draw=_draw_gains,
    headlines=_GAINS,
    ratio=Ratio("interleaved", "dynamic", "interleaved cycles / dynamic cycles"),
    columns=(),
)
BATCHES: Final = Figure(
    "15",
    points=_batch_points,
    draw=_draw_batches,
    headlines=_BATCH_GAINS,
    ratio=Ratio("coarse", "dynamic", "coarse cycles / dynamic cycles"),
    columns=(),
)
MEANS: Final = Figure(
    "21",
    points=_mean_points,
    draw=_draw_means,
    headlines=_MEANS,
    columns=(),
    summary=_mean_rows,
)
