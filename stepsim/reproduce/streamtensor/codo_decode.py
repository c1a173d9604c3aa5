"""A published decode block of GPT-2 medium as a network of stages: an independent check.

Stages, their latencies and the FIFO depths are those of the synthesis report and the generated
design in the artifact of CODO (ISCA 2026, arXiv 2604.12618: experiments/fig-9/gpt_decoding), which
gives the block a latency of 12 557 cycles and an interval of 8 268. A token is the data that a
stage moves at once: 32 elements of 8 bits between linear layers, 4 in attention, 1 for a score. One
stage loads all weights into arrays before the others start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stepsim.sizing import Fifo, FifoNetwork, SteppingKernel

PUBLISHED_LATENCY = 12_557
"""Cycles of one block, as the synthesis report estimates them."""

PUBLISHED_INTERVAL = 8_268
"""Cycles between the starts of consecutive blocks."""

_LOAD = "load"
_LOAD_LATENCY = 8_267

_WIDE, _QUARTER, _SCORE = 256, 32, 8
"""Bits of a token."""

_STAGES = (
    # name, reported latency, steps, interval
    ("split", 34, 32, 1),
    ("q", 1031, 1024, 1),
    ("split_kv", 34, 32, 1),
    ("q_bias", 34, 32, 1),
    ("k", 1031, 1024, 1),
    ("k_bias", 34, 32, 1),
    ("v", 1031, 1024, 1),
    ("v_bias", 34, 32, 1),
    ("zero_scores", 18, 16, 1),
    ("qk", 773, 256, 3),
    ("scale", 19, 16, 1),
    ("split_scores", 18, 16, 1),
    ("max", 20, 16, 1),
    ("exp", 34, 16, 1),
    ("split_exp", 18, 16, 1),
    ("sum", 20, 16, 1),
    ("divide", 30, 16, 1),
    ("zero_heads", 258, 256, 1),
    ("pv", 519, 256, 2),
    ("projection", 1293, 1024, 1),
    ("residual_1", 35, 32, 1),
    ("split_mean_1", 34, 32, 1),
    ("mean_1", 99, 32, 3),
    ("center_1", 34, 32, 1),
    ("split_square_1", 34, 32, 1),
    ("square_1", 102, 32, 3),
    ("normal_1", 34, 32, 1),
    ("split_ffn", 34, 32, 1),
    ("fc1", 4103, 4096, 1),
    ("relu", 131, 128, 1),
    ("fc2", 4103, 4096, 1),
    ("residual_2", 35, 32, 1),
    ("split_mean_2", 34, 32, 1),
    ("mean_2", 99, 32, 3),
    ("center_2", 34, 32, 1),
    ("split_square_2", 34, 32, 1),
    ("square_2", 102, 32, 3),
    ("normal_2", 34, 32, 1),
)

_STREAMS = (
    # producer, consumer, tokens, bits of a token, published depth (0: a whole array, twice)
    ("split", "q", 32, _WIDE, 1000),
    ("split", "residual_1", 32, _WIDE, 1024),
    ("q", "q_bias", 32, _WIDE, 1000),
    ("q", "split_kv", 32, _WIDE, 1000),
    ("split_kv", "v", 32, _WIDE, 1024),
    ("split_kv", "k", 32, _WIDE, 1000),
    ("q_bias", "qk", 32, _WIDE, 0),
    ("k", "k_bias", 32, _WIDE, 1000),
    ("k_bias", "qk", 32, _WIDE, 0),
    ("v", "v_bias", 32, _WIDE, 1000),
    ("v_bias", "pv", 32, _WIDE, 0),
    ("zero_scores", "qk", 16, _SCORE, 1000),
    ("qk", "scale", 16, _SCORE, 1000),
    ("scale", "split_scores", 16, _SCORE, 1000),
    ("split_scores", "exp", 16, _SCORE, 16),
    ("split_scores", "max", 16, _SCORE, 1000),
    ("max", "exp", 16, _SCORE, 1000),
    ("exp", "split_exp", 16, _SCORE, 1000),
    ("split_exp", "divide", 16, _SCORE, 16),
    ("split_exp", "sum", 16, _SCORE, 1000),
    ("sum", "divide", 16, _SCORE, 1000),
    ("divide", "pv", 16, _SCORE, 1000),
    ("zero_heads", "pv", 256, _QUARTER, 1000),
    ("pv", "projection", 256, _QUARTER, 1000),
    ("projection", "residual_1", 32, _WIDE, 1000),
    ("residual_1", "split_mean_1", 32, _WIDE, 1000),
    ("split_mean_1", "center_1", 32, _WIDE, 1024),
    ("split_mean_1", "mean_1", 32, _WIDE, 0),
    ("mean_1", "center_1", 1, _SCORE, 1000),
    ("center_1", "split_square_1", 32, _WIDE, 1000),
    ("split_square_1", "normal_1", 32, _WIDE, 1024),
    ("split_square_1", "square_1", 32, _WIDE, 1000),
    ("square_1", "normal_1", 1, _SCORE, 1000),
    ("normal_1", "split_ffn", 32, _WIDE, 1000),
    ("split_ffn", "residual_2", 32, _WIDE, 1024),
    ("split_ffn", "fc1", 32, _WIDE, 1000),
    ("fc1", "relu", 128, _WIDE, 1000),
    ("relu", "fc2", 128, _WIDE, 1000),
    ("fc2", "residual_2", 32, _WIDE, 1000),
    ("residual_2", "split_mean_2", 32, _WIDE, 1000),
    ("split_mean_2", "center_2", 32, _WIDE, 1024),
    ("split_mean_2", "mean_2", 32, _WIDE, 0),
    ("mean_2", "center_2", 1, _SCORE, 1000),
    ("center_2", "split_square_2", 32, _WIDE, 1000),
    ("split_square_2", "normal_2", 32, _WIDE, 1024),
    ("split_square_2", "square_2", 32, _WIDE, 1000),
    ("square_2", "normal_2", 1, _SCORE, 1000),
)

_LOADED = (
    "split", "q", "q_bias", "k", "k_bias", "v", "v_bias", "projection", "residual_1", "fc1", "relu",
    "fc2", "residual_2", "zero_scores", "zero_heads",
)  # fmt: skip
"""Stages that start when the load ends: those that read its arrays, and those without inputs."""


@dataclass(frozen=True)
class StageBlock:
    """The block, repeated.

    Attributes
    ----------
    network : its stages; the first ``len(published)`` FIFOs are the streams between them, the
        others signal that a stage's weights are loaded and hold no bits.
    published : depths of the streams in the published design, in tokens; where the design
        double-buffers a whole array, twice all of its tokens.
    """

    network: FifoNetwork
    published: tuple[int, ...]

    def bits(self, depths: Iterable[int]) -> int:
        """Bits of the streams with these depths."""
        pairs = zip(self.network.fifos, depths, strict=False)
        return sum(fifo.bits * int(depth) for fifo, depth in pairs)

    @property
    def published_bits(self) -> int:
        """Bits of the streams in the published design."""
        return self.bits(self.published)


def decode_block(blocks: int = 1, *, reductions: bool = True) -> StageBlock:
    """The stages, for a number of consecutive blocks.

    Parameters
    ----------
    reductions : a mean is known only once all of its tokens have arrived. The synthesis report
        does not model that: it lets a stage behind a FIFO start with its producer's first token,
        so its latency is that of a design with ``reductions=False``.
    """
    names = [_LOAD, *(name for name, _, _, _ in _STAGES)]
    # A stage restarts one cycle after it has ended.
    kernels = [SteppingKernel(blocks, _LOAD_LATENCY + 1, _LOAD_LATENCY, _LOAD)]
    for name, latency, steps, interval in _STAGES:
        first = latency - (steps - 1) * interval
        kernels.append(SteppingKernel(blocks * steps, interval, first, name))
    order = _order(names)
    number = {name: order.index(name) for name in names}
    fifos, published = [], []
    for producer, consumer, tokens, bits, depth in _STREAMS:
        source, sink = (kernels[names.index(name)].steps // blocks for name in (producer, consumer))
        moved = tokens if reductions or tokens > 1 else source
        fifos.append(Fifo(number[producer], number[consumer], source // moved, sink // moved, bits))
        published.append(depth or 2 * moved)
    for name in _LOADED:
        steps = kernels[names.index(name)].steps // blocks
        fifos.append(Fifo(number[_LOAD], number[name], 1, steps, 0))
    ordered = tuple(kernels[names.index(name)] for name in order)
    return StageBlock(FifoNetwork(ordered, tuple(fifos)), tuple(published))


def _order(names: list[str]) -> list[str]:
    """The stages, each after all of its producers."""
    found: list[str] = []
    waiting = list(names)
    while waiting:
        ready = [
            name
            for name in waiting
            if all(p in found for p, consumer, _, _, _ in _STREAMS if consumer == name)
        ]
        found += ready
        waiting = [name for name in waiting if name not in ready]
    return found
