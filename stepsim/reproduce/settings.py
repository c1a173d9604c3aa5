"""Common settings of the STeP paper's figures: models, recorded traces, published values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stepsim.reproduce.points import Run
from stepsim.workloads import Data, Model, Workload

MIXTRAL: Final = "mixtral-8x7b"
QWEN: Final = "qwen3-30b-a3b"
MODELS: Final = {MIXTRAL: "mixtral", QWEN: "qwen"}
"""Models of the figures, with their short names in point ids."""

MODEL_NAMES: Final = {MIXTRAL: "Mixtral-8x7B", QWEN: "Qwen3-30B-A3B"}
"""Their titles on panels and axes."""

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

ARCHIVED_TRACES: Final = {
    2048: _windows(16, "very low", "0174_1845_1860", "0198_1443_1458", "0198_1683_1698"),
    6528: _windows(16, "very high", "1951_3727_3742"),
    8000: _windows(16, "very high", "1884_1501_1516", "1974_1487_1502"),
}
"""Windows outside the figures, by the tokens reserved for each request."""

MEDIAN_TRACE: Final = next(t for t in KV_TRACES if t.first == 4007)
"""The window whose prefixes figure 15 uses; the decoder runs on all of it."""

STRATEGIES: Final = {"coarse": "coarse", "interleaved": "interleave", "dynamic": "dynamic"}
"""Ways of sharing attention, with their short names in point ids."""


def published_run(workload: str, parameters: Mapping[str, Any], **more: Any) -> Run:
    """A run of the published experiments; ``more`` are fields of Run; None means not given."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return Run(workload, given, config="published", counting="published", **more)


def published_settings(workload: type[Workload], batch: int, **given: Any) -> Mapping[str, Any]:
    """Parameters of a published experiment with ``batch`` rows or requests."""
    if "model" in given:
        given["model"] = Model.parse(given["model"])
    return workload.presets(given, Data(rows=batch, whole=batch), "published")
