"""The runs of the STeP paper (sections 4.5, 5 and B) as points of its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from stepsim.reproduce.points import Point, Run
from stepsim.workloads import Attention, Data, Decoder, Model, Moe, Swiglu, Workload

__all__ = [
    "KV_TRACES",
    "ROUTINGS",
    "KVTrace",
    "archived_points",
    "batch_points",
    "decoder_points",
    "gain_points",
    "hardware_points",
    "mean_points",
    "sharing_points",
    "tiling_points",
]

MIXTRAL: Final = "mixtral-8x7b"
QWEN: Final = "qwen3-30b-a3b"
_SHORT = {MIXTRAL: "mixtral", QWEN: "qwen"}

ROUTINGS: Final = {
    (MIXTRAL, 64): "expert_routing/mixtral_b64/008_010.npz",
    (QWEN, 64): "expert_routing/qwen_b64/032_012.npz",
    (MIXTRAL, 1024): "expert_routing/mixtral_b1024/019_009.npz",
    (QWEN, 1024): "expert_routing/qwen_b1024/022_016.npz",
}


class KVTrace(NamedTuple):
    """A window of a trace of KV lengths, named after its first request."""

    requests: int
    kv_class: str
    first: int
    file: str


def _windows(requests: int, kv_class: str, *names: str) -> list[KVTrace]:
    return [
        KVTrace(requests, kv_class, int(n.split("_")[1]), f"azure_trace/b{requests}/conv_{n}.npy")
        for n in (f"stdev{name}" for name in names)
    ]


KV_TRACES: Final = (
    *_windows(16, "high", "1456_2805_2820", "1455_0821_0836", "1454_0985_1000"),
    *_windows(16, "med", "0987_3349_3364", "0987_3275_3290", "0986_3181_3196"),
    *_windows(16, "low", "0480_3799_3814", "0479_2477_2492", "0479_1063_1078"),
    *_windows(64, "high", "1457_0961_1024", "1374_3239_3302", "1370_1727_1790"),
    *_windows(64, "med", "0996_4007_4070", "0995_3123_3186", "0995_0733_0796"),
    *_windows(64, "low", "0508_2019_2082", "0484_4185_4248", "0477_0271_0334"),
    *_windows(80, "high", "1413_0981_1060", "1334_3227_3306", "1310_0815_0894"),
    *_windows(80, "med", "0986_3989_4068", "0987_1891_1970", "0987_4687_4766"),
    *_windows(80, "low", "0529_2025_2104", "0531_0135_0214", "0562_4181_4260"),
)
"""The windows of figure 21, by batch and spread; the middle batch is that of figure 14."""

_ARCHIVED_TRACES: Final = {
    2048: _windows(16, "very low", "0174_1845_1860", "0198_1443_1458", "0198_1683_1698"),
    6528: _windows(16, "very high", "1951_3727_3742"),
    8000: _windows(16, "very high", "1884_1501_1516", "1974_1487_1502"),
}
"""Windows of no figure, by the tokens reserved for each request."""

MEDIAN_TRACE: Final = next(t for t in KV_TRACES if t.first == 4007)
"""The window whose prefixes figure 15 takes, and that the decoder runs on."""

_STRATEGIES = {"coarse": "coarse", "interleaved": "interleave", "dynamic": "dynamic"}


_CONFIG: Final = "published"


def _published(workload: type[Workload], batch: int, **given: Any) -> Mapping[str, Any]:
    """What the published experiment sets."""
    if "model" in given:
        given["model"] = Model.parse(given["model"])
    return workload.presets(given, Data(rows=batch, whole=batch), _CONFIG)


def archived_points() -> list[Point]:
    """Recorded settings that no figure shows: shallow queues, two regions, extreme KV lengths."""
    shallow = [
        replace(p, figure="", point_id=f"d2_{p.point_id}", run=replace(p.run, fifo_depth=2))
        for p in tiling_points("10")
        if p.run.fifo_depth != 2
    ]
    extreme = [
        Point(
            "", f"b{trace.requests}_{trace.first}_{short}", strategy,
            replace(_attention(trace, strategy), max_length=tokens), trace.kv_class,
        )
        for tokens, windows in _ARCHIVED_TRACES.items()
        for trace in windows
        for strategy, short in _STRATEGIES.items()
    ]  # fmt: skip
    return [*shallow, _shared("", "dynamic", 2), *extreme]


def hardware_points() -> Iterable[Point]:
    for tile in (16, 32, 64):
        for inner in (16, 32, 64, 128, 256):
            config = _published(Swiglu, 0)
            run = Run(
                "swiglu", "swiglu", config["batch"], tile, inner,
                fifo_depth=config["fifo_depth"], machine="sda-hdl",
            )  # fmt: skip
            yield Point("8", f"f8_step_{tile}_{inner}", f"{tile} rows", run)


def tiling_points(figure: str) -> Iterable[Point]:
    small = figure in ("9", "19")
    batch = 64 if small else 1024
    tiles: tuple[int | str, ...] = (8, 16, 32, 64) if small else (16, 32, 64, 128, 256, 512, 1024)
    for model, short in _SHORT.items():
        for tile in (*tiles, "dynamic"):
            config = _published(Moe, batch, model=model, tile=tile)
            run = Run(
                "moe", model, batch, tile, config["tile_inter"],
                routing=ROUTINGS[model, batch], fifo_depth=config["fifo_depth"],
            )  # fmt: skip
            dynamic = isinstance(tile, str)
            name = f"f{'9' if small else '10'}_{short}_{'dyn' if dynamic else tile}"
            yield Point(figure, name, "dynamic" if dynamic else "static", run)


def _shared(figure: str, tile: int | str, regions: int) -> Point:
    config = _published(Moe, 64, model=QWEN, tile=tile, regions=regions)
    series = "dynamic" if isinstance(tile, str) else "static"
    run = Run(
        "moe", QWEN, 64, tile, config["tile_inter"], regions,
        routing=ROUTINGS[QWEN, 64], fifo_depth=config["fifo_depth"],
    )  # fmt: skip
    short = "dyn" if series == "dynamic" else series
    return Point(figure, f"{'f12' if figure else 'ts'}_{short}_{regions}", series, run)


def sharing_points(figure: str) -> Iterable[Point]:
    for tile in (32, "dynamic") if figure == "12" else (32,):
        for regions in (128, 64, 32, 16, 8, 4):
            yield _shared(figure, tile, regions)


def _attention(trace: KVTrace, strategy: str, batch: int | None = None) -> Run:
    requests = trace.requests if batch is None else batch
    config = _published(Attention, trace.requests, model=QWEN, strategy=strategy)
    return Run(
        "attention", config["shape"].name, requests, regions=config["regions"], strategy=strategy,
        lengths=trace.file, max_length=config["max_length"], fifo_depth=config["fifo_depth"],
    )  # fmt: skip


def gain_points() -> Iterable[Point]:
    windows = {t.first: t for t in KV_TRACES if t.requests == 64}
    for first in (4185, 2019, 271, 4007, 3123, 733, 3239, 1727, 961):
        trace = windows[first]
        for strategy in ("interleaved", "dynamic"):
            name = f"f14_{first}_{_STRATEGIES[strategy]}"
            yield Point("14", name, strategy, _attention(trace, strategy), trace.kv_class)


def batch_points() -> Iterable[Point]:
    for batch in (16, 32, 48, 64):
        for strategy in ("coarse", "dynamic"):
            run = _attention(MEDIAN_TRACE, strategy, batch)
            name = f"f15_b{batch}_{_STRATEGIES[strategy]}"
            yield Point("15", name, strategy, run, MEDIAN_TRACE.kv_class)


def mean_points() -> Iterable[Point]:
    for trace in KV_TRACES:
        for strategy, short in _STRATEGIES.items():
            name = f"f21_b{trace.requests}_{trace.first}_{short}"
            yield Point("21", name, strategy, _attention(trace, strategy), trace.kv_class)


def decoder_points() -> Iterable[Point]:
    variants = {
        "memory-matched": "mem_matched",
        "performance-matched": "perf_matched",
        "dynamic": "dynamic",
    }
    for model, short in _SHORT.items():
        for variant, name in variants.items():
            config = _published(Decoder, 64, model=model, variant=variant)
            run = Run(
                "decoder", model, 64, config["tile"], config["tile_inter"],
                config["expert_regions"], variant, ROUTINGS[model, 64], MEDIAN_TRACE.file,
            )  # fmt: skip
            yield Point("17", f"f17_{short}_{name}", variant, run, MEDIAN_TRACE.kv_class)
