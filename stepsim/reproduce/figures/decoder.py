"""Figure 17: decoder layers in three variants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stepsim.report import style
from stepsim.reproduce.figure import Figure, Ratio, Rows, values
from stepsim.reproduce.headline import Headline, ratio, share
from stepsim.reproduce.points import Point
from stepsim.reproduce.settings import (
    MEDIAN_TRACE,
    MODEL_NAMES,
    MODELS,
    ROUTINGS,
    published_run,
    published_settings,
)
from stepsim.workloads import Decoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_VARIANTS = ("memory-matched", "performance-matched", "dynamic")
_COLUMNS = (
    ("ratio", 1, "speedup over memory-matched"),
    ("onchip_bytes", 1 << 20, "on-chip memory (MiB)"),
    ("allocated_flops_per_cycle", 1e3, "compute (thousand FLOPs/cycle)"),
)


def _decoder_points() -> Iterable[Point]:
    variants = {
        "memory-matched": "mem_matched",
        "performance-matched": "perf_matched",
        "dynamic": "dynamic",
    }
    for model, short in MODELS.items():
        for variant, name in variants.items():
            config = published_settings(Decoder, 64, model=model, variant=variant)
            given = {name: config[name] for name in ("tile", "tile_inter", "expert_regions")}
            given |= {"model": model, "variant": variant}
            run = published_run(
                "decoder", given, batch=64, routing=ROUTINGS[model, 64], lengths=MEDIAN_TRACE.file
            )
            yield Point("17", f"f17_{short}_{name}", variant, run, MEDIAN_TRACE.kv_class)


def _draw(rows: Rows) -> Picture:
    """A panel each for speedup, memory and compute, the models side by side."""
    title = "Figure 17: decoder layers (the published graph is not known, ours is inferred)"
    picture, axes = style.panels(3, width=3.1, height=2.9, title=title)
    models = list(MODEL_NAMES)
    for panel, (column, scale, label) in zip(axes, _COLUMNS, strict=True):
        for place, variant in enumerate(_VARIANTS):
            own = [row for row in rows if row["series"] == variant]
            x = [models.index(row["model"]) + 0.27 * (place - 1) for row in own]
            theirs = values(own, f"published_{column}", scale)
            ours = values(own, column, scale)
            style.bars(panel, x, ours, theirs, style.COLORS[variant], 0.25)
        every = [*values(rows, column, scale)]
        panel.set_ylim(0, 1.12 * max(every))
        panel.set_xticks(range(len(models)), list(MODEL_NAMES.values()))
        panel.set_ylabel(label)
    entries = [style.solid_mark(style.COLORS[v], v, "s") for v in _VARIANTS]
    compared = any(row.get("published_ratio") is not None for row in rows)
    style.legend(picture, [*entries, style.published_mark()], compared=compared)
    return picture


_NO_GRAPH: Final = "graph not published: ours is inferred"


def _stack(claim: str, model: str, over: str, figure: str = "17") -> Headline:
    return ratio(
        figure, claim, lambda n: n.speedup(f"f17_{model}_{over}", f"f17_{model}_dynamic"),
        note=_NO_GRAPH,
    )  # fmt: skip


def _stack_share(claim: str, column: str, model: str, over: str) -> Headline:
    names = f"f17_{model}_dynamic", f"f17_{model}_{over}"
    note = "" if column.startswith("allocated") else _NO_GRAPH
    return share("17", claim, column, *names, note=note)


_HEADLINES: Final = (
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
)  # fmt: skip

LAYERS: Final = Figure(
    "17",
    points=_decoder_points,
    draw=_draw,
    headlines=_HEADLINES,
    ratio=Ratio("memory-matched", None, "memory-matched cycles / cycles"),
    columns=("offchip_bytes", "onchip_bytes", "allocated_flops_per_cycle"),
)
