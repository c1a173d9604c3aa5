"""GPT-2 medium on the U55C, against tables 4 and 5 of the StreamTensor paper.

Three levels, each simulated: a lower bound for any design; a design without fitted parameters; a
design fitted to the row of 64 tokens alone, which predicts the other rows. The rows are smooth in
the length (a line and a parabola fit them within 1 %), so the third level checks that cycles,
clock, layers and requests are combined correctly, and says little about the paper's design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Final

import numpy as np

from stepsim.design import CONFIGS, RequestTimes, model_shape, request_times
from stepsim.reproduce.streamtensor.block_design import BlockDesign, LaneSplit
from stepsim.reproduce.streamtensor.published_gpt2 import SYSTEM, published_gpt2

PUBLISHED: Final = CONFIGS["published"]

MODEL: Final = PUBLISHED.model

CALIBRATION_ROW: Final = (64, 64)
"""The only row of the tables that is used for fitting."""

LONGEST: Final = PUBLISHED.context + 1
"""Capacity of the cache in tokens: the longest request of the tables. Loops of decoding have this
size for any request, so a token always takes the same time."""

_NETWORK = (256, 512, 1024)
_PROJECTIONS = (128, 256, 512, 1024, 2048)
_ATTENTION = (32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class WeightBounds:
    """Lower bounds from the weights of a token.

    Attributes
    ----------
    weight_bytes : bytes of the matrices of one block that a simulated token loads.
    least_bytes : the same bytes without packing into words.
    least_ms : time of a token with all weights of all layers at peak memory bandwidth.
    token_ms : simulated time of a token.
    """

    weight_bytes: int
    least_bytes: int
    least_ms: float
    token_ms: float


def uncalibrated(rows: int | None = None) -> BlockDesign:
    """The design of ``--config published``, which is not fitted; other ``rows`` of a tile."""
    choices = PUBLISHED.choices
    return BlockDesign(MODEL, choices if rows is None else replace(choices, rows=rows))


def weight_bounds(design: BlockDesign) -> WeightBounds:
    """Bytes of weights that one token loads, and their memory time."""
    graph = design.dataflow("decode", 1, LONGEST - 1)
    tensors = graph.operators.tensors
    matrices = {
        name for name, one in tensors.items() if one.role == "weight" and len(one.shape) == 2
    }
    moved = sum(dma.traffic for dma in graph.dmas if dma.tensor in matrices)
    least = sum(tensors[name].bytes for name in matrices)
    layers = model_shape(MODEL).layers
    floor = design.target.milliseconds(layers * least / design.target.peak_bandwidth)
    assert floor is not None  # the machine has a clock
    return WeightBounds(moved, least, floor, token_ms(design))


def token_ms(design: BlockDesign) -> float:
    """Time of one token of the output in all layers, in ms."""
    return model_shape(MODEL).layers * design.milliseconds("decode", 1, LONGEST - 1)


def prefill_ms(design: BlockDesign, prompt: int) -> float:
    """Time of a prompt in all layers, in ms."""
    return model_shape(MODEL).layers * design.milliseconds("prefill", prompt)


def design_times(
    design: BlockDesign, prompt: int, output: int, overhead_ms: float = 0.0
) -> RequestTimes:
    """Simulated times of a request."""
    return request_times(
        prompt, output, lambda n: prefill_ms(design, n), token_ms(design), overhead_ms
    )


def prefill_slope(design: BlockDesign, prompts: Sequence[int] = (32, 64, 128, 256)) -> float:
    """Linear term of the time of a prompt, per token in ms, as for the published rows."""
    found = np.polyfit(prompts, [prefill_ms(design, n) for n in prompts], 2)
    return float(found[1])


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A design fitted to one row.

    Attributes
    ----------
    overhead_ms : fixed time of a request: the part of the output time in that row that the
        simulated tokens do not explain.
    ttft_error : relative error of the time to the first token in that row.
    tried : number of simulated designs.
    """

    design: BlockDesign
    split: LaneSplit
    overhead_ms: float
    ttft_error: float
    tried: int

    def times(self, prompt: int, output: int) -> RequestTimes:
        """Times of a request predicted by this design."""
        return design_times(self.design, prompt, output, self.overhead_ms)


@cache
def calibrated(rows: int | None = None) -> Calibrated:
    """The split of multipliers with the time to the first token closest to that of the row.

    Only splits whose output tokens take no longer than the row's are considered; the rest of the
    row's time is the overhead of a request.

    Parameters
    ----------
    rows : tokens of a tile, None is those of :func:`uncalibrated`; not fitted.
    """
    free = replace(uncalibrated(rows).choices, network_lanes=None)
    prompt, output = CALIBRATION_ROW
    known = published_gpt2()[CALIBRATION_ROW][SYSTEM].times
    decode_ms = output / known.tokens_per_second * 1e3
    splits = [LaneSplit(*three) for three in product(_NETWORK, _PROJECTIONS, _ATTENTION)]
    errors = {
        split: prefill_ms(BlockDesign(MODEL, free, split), prompt) / known.ttft_ms - 1
        for split in splits
    }
    for split in sorted(splits, key=lambda one: abs(errors[one])):
        design = BlockDesign(MODEL, free, split)
        overhead = decode_ms - output * token_ms(design)
        if overhead >= 0:
            return Calibrated(design, split, overhead, errors[split], len(splits))
    raise AssertionError("no split leaves time for an overhead")


def ratios(ours: RequestTimes, system: str) -> tuple[float, float, float]:
    """Latency, time to the first token and speed, relative to those of a published system."""
    return ours.over(published_gpt2()[ours.prompt, ours.output][system].times)
