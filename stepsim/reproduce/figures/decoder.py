"""Figure 17: decoder layers in three variants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from stepsim.report import style
from stepsim.reproduce.figure import Figure, Ratio, Rows, legend, values
from stepsim.reproduce.headline import Headline, ratio, share
from stepsim.reproduce.points import Point
from stepsim.reproduce.rows import SYNTHETIC
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
    legend(picture, entries, rows, "published_ratio")
    return picture


_NO_GRAPH: Final = "graph not published: ours is inferred"

_KNOWN_LENGTHS: Final = "; cache lengths of median deviation"
"""Known from the text as well; synthetic ones have another deviation."""

_KNOWN: Final = (
    "known from the text: QKV generation, attention and experts of one layer; the batch split "
    "four ways for QKV generation and attention; experts in parallel; static variants with "
    "interleaved attention and static tiles, the dynamic one with dynamic parallelization and "
    "dynamic tiles, and in Qwen with shared regions of experts",
    "known from the bars: speedups, on-chip memory and compute, and what follows from their sums: "
    "tiles of 16 and 32 rows in Mixtral and 8 and 64 in Qwen, inner tiles of 64 and 48 columns, 32 "
    "regions of experts, 1,024 FLOPs/cycle for each operator of the experts and 131,072 for QKV "
    "generation and attention together",
    "taken from the paper's other layers: the graphs of attention with FIFOs of 1 token (figures "
    "14, 15 and 21), those of the experts with FIFOs of 2 (figures 9 and 12), and as many loads of "
    "weights as use the whole bandwidth of the memory",
    "unknown: the graph, and with it cycles, FIFO depths, tiles and loads of the QKV weights, how "
    "their compute is divided, and which stages overlap; and whether there is more than the text "
    "names: norms, rotary embedding, output projection, residual sums and router are left out "
    "here; nothing was fitted to the speedups",
)


def _remarks(rows: Rows) -> list[str]:
    """What is known of the figure and what is not, and the speedups side by side."""
    of_text, *others = _KNOWN
    recorded = all(row.get("trace") != SYNTHETIC for row in rows)
    lines = [of_text + (_KNOWN_LENGTHS if recorded else ""), *others]
    for model, shown in MODEL_NAMES.items():
        own = {row["series"]: row for row in rows if row["model"] == model}
        if len(own) < len(_VARIANTS):
            continue
        texts = []
        for over in _VARIANTS[:2]:
            ours, theirs = (_speedup(own, over, column) for column in ("ratio", "published_ratio"))
            if ours is not None:
                plotted = "" if theirs is None else f", {theirs:.3f} in the figure"
                texts.append(f"{ours:.3f} over {over}{plotted}")
        if texts:
            lines.append(f"speedup of the dynamic variant, {shown}: {'; '.join(texts)}")
    return lines


def _speedup(rows: Mapping[str, Mapping[str, Any]], over: str, column: str) -> float | None:
    """The ratio of cycles of a variant to those of the dynamic one."""
    fast, slow = rows["dynamic"].get(column), rows[over].get(column)
    return None if fast is None or slow is None else fast / slow


def _stack(claim: str, model: str, over: str) -> Headline:
    return ratio(
        "17", claim, lambda n: n.speedup(f"f17_{model}_{over}", f"f17_{model}_dynamic"),
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
    remarks=_remarks,
)
