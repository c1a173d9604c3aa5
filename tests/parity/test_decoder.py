"""Figure 17: compute of the decoder layers, and how their on-chip bytes differ.

The graph of the figure is not published: its cycles cannot be met, and of its bytes only those of
the experts and of the completion signals are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim import simulate
from stepsim.workloads import DecoderWorkload, decoder_layer, published_decoder_config
from stepsim.workloads.decoder import VARIANTS
from tests.parity.points import kv_lengths, routing_indices, values
from tests.shared import TRACES, needs_traces

pytestmark = needs_traces

ROUTINGS = {"mixtral-8x7b": "mixtral_b64/008_010.npz", "qwen3-30b-a3b": "qwen_b64/032_012.npz"}
LENGTHS = "b64/conv_stdev0996_4007_4070.npy"
NAMES = dict(zip(VARIANTS, ("mem_matched", "perf_matched", "dynamic"), strict=True))
DECODED = 4  # bytes that a decoded bar may be off


def indices(model: str) -> np.ndarray[Any, Any]:
    return routing_indices(TRACES / "expert_routing" / ROUTINGS[model])


def build(model: str, variant: str) -> DecoderWorkload:
    lengths = kv_lengths(TRACES / "azure_trace" / LENGTHS)
    return decoder_layer(kv_lengths=lengths, **published_decoder_config(model, variant))


def published(model: str, variant: str, column: str) -> int:
    row = values()[f"f17_{model.split('-')[0].removesuffix('3')}_{NAMES[variant]}"]
    return int(row[column])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", ROUTINGS)
def test_compute_and_run(model: str, variant: str) -> None:
    work = build(model, variant)
    assert work.allocated_compute == published(model, variant, "allocated_flops")
    result = simulate(work.program, bindings={work.routing: indices(model)})
    exact = work.metrics(indices(model), memory="paper")
    assert result.status == "ok"
    assert result.offchip_bytes == exact.off_chip_traffic
    assert result.flops == exact.flops


@pytest.mark.parametrize("model", ROUTINGS)
def test_bytes_differ_between_variants_as_published(model: str) -> None:
    ours = {v: build(model, v).metrics(indices(model)).on_chip_memory for v in VARIANTS}
    theirs = {v: published(model, v, "on_chip_bytes") for v in VARIANTS}
    for variant in VARIANTS[1:]:
        ours_more = ours[variant] - ours[VARIANTS[0]]
        theirs_more = theirs[variant] - theirs[VARIANTS[0]]
        assert abs(ours_more - theirs_more) <= DECODED


def test_dynamic_wins_over_memory_matched_tiles() -> None:
    for model in ROUTINGS:
        table = indices(model)
        static, dynamic = (build(model, v) for v in (VARIANTS[0], VARIANTS[2]))
        slow, fast = (
            simulate(w.program, bindings={w.routing: table}).cycles for w in (static, dynamic)
        )
        assert fast < slow
