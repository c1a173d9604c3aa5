"""Typed streams for the generator of random networks, and what an operator makes of them.

A :class:`Wire` is an open stream of a growing network: its channel and its content (levels and
payloads). The content behind an operator is found by running that operator alone, on unbounded
channels: whatever it aborts on or leaves unread is not a legal use of it. Behind an EagerMerge the
order of tokens depends on time; such wires carry one possible order and say what is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from stepsim.lowering.network import TimingParams
from tests.oracle.build import NetBuilder
from tests.oracle.fabric import Payload
from tests.oracle.interpreter import OracleResult, interpret
from tests.oracle.payloads import integer, tile
from tests.property_profile import FEW

__all__ = [
    "BANDWIDTHS",
    "Content",
    "Draw",
    "Wire",
    "chunks",
    "element_of",
    "evaluate",
    "float_tokens",
    "level_lists",
    "merged_content",
    "shape_of",
    "tile_shapes",
    "timings",
]

Draw = Callable[[st.SearchStrategy[Any]], Any]
Content = list[tuple[int, Payload]]  # (level, payload)

BANDWIDTHS = [1024, 4096, 205, 64, 16, 4]
MAX_TOKENS = 48
# Content does not depend on time, so the memory may be as fast as it gets here.
_INSTANT = TimingParams(hbm_channels=64, hbm_interval=1, hbm_latency=1, hbm_startup=0)


@dataclass
class Wire:
    """An open stream. Kinds: float, int, selector, buffer, tuple, ack.

    ``levels_exact``/``payload_exact``: the level/payload of the k-th token is certain. If not, the
    content is one possible order of the tokens (``multiset_exact``) or just a sample.
    """

    kind: str
    content: Content
    channel: str = ""
    levels_exact: bool = True
    payload_exact: bool = True
    multiset_exact: bool = True
    # kind "tuple": a function that fits both members; kind "buffer": the rank.
    fn: list[Any] = field(default_factory=list)
    rank: int = 0

    @property
    def exact(self) -> bool:
        return self.levels_exact and self.payload_exact

    @property
    def levels(self) -> list[int]:
        return [level for level, _ in self.content]

    @property
    def payloads(self) -> list[Payload]:
        return [payload for _, payload in self.content]

    @property
    def top(self) -> int:
        return max(self.levels, default=0)

    def is_like(self, other: Wire) -> bool:
        """Whether what follows may take tokens of either wire."""
        return (self.kind, self.fn, self.rank) == (other.kind, other.fn, other.rank)

    def like(self, kind: str, content: Content, **changes: Any) -> Wire:
        """A new wire with this one's certainties."""
        flags = {
            "levels_exact": self.levels_exact,
            "payload_exact": self.payload_exact,
            "multiset_exact": self.multiset_exact,
        }
        return Wire(kind, content, **{**flags, **changes})


def shape_of(wire: Wire) -> tuple[int, int] | None:
    """(R, C) if all tiles have the same shape, else None; None for an empty stream."""
    shapes = {tuple(payload["tile"][:2]) for payload in wire.payloads}
    return shapes.pop() if len(shapes) == 1 else None


def element_of(wire: Wire) -> float | None:
    """Bytes per element if all tiles have the same, else None; pads may have others."""
    elements = {payload["tile"][2] for payload in wire.payloads}
    return elements.pop() if len(elements) == 1 else None


def chunks(content: Content, rank: int) -> list[Content] | None:
    """Cut at every level >= rank (rank 0: every token); None if the end is not a chunk end."""
    out: list[Content] = [[]]
    for level, payload in content:
        out[-1].append((level, payload))
        if rank == 0 or level >= rank:
            out.append([])
    return out[:-1] if not out[-1] else None


def evaluate(
    op: str, params: dict[str, Any], inputs: list[Wire], outputs: int, model: str
) -> list[Content] | None:
    """What the operator makes of the inputs' content; None if it does not fit or grows too big."""
    b = NetBuilder(replace(_INSTANT, model=model))
    ins, outs = [f"i{i}" for i in range(len(inputs))], [f"o{i}" for i in range(outputs)]
    for name, wire in zip(ins, inputs, strict=True):
        tokens = [{**payload, "level": level} for level, payload in wire.content]
        b.unit(f"source {name}", "Src", [], [name], tokens=tokens, n=0, tail=0)
    b.unit("it", op, ins, outs, **({**params, "par": 64} if "par" in params else params))
    result = interpret(b.network())
    if result.unit_status["it"].state != "done" or _leftover(result, ins, op):
        return None
    contents = [[(token.level, token.payload) for token in result.tokens[name]] for name in outs]
    return contents if all(len(content) <= MAX_TOKENS for content in contents) else None


def _leftover(result: OracleResult, ins: list[str], op: str) -> bool:
    """Unread tokens mean stream shapes that disagree; only a DynStreamify keeps its last buffer."""
    allowed = {"i0": 1} if op == "DynStreamify" else {}
    return any(
        len(result.tokens[name]) - result.removed[name] > allowed.get(name, 0) for name in ins
    )


def merged_content(inputs: list[Wire], rank: int) -> tuple[Content, bool, bool]:
    """One possible merge, and whether its levels and payloads are the same in every order."""
    parts = [part for wire in inputs for part in chunks(wire.content, rank) or []]
    patterns = {tuple(level for level, _ in part) for part in parts}
    payloads = {repr(payload) for part in parts for _, payload in part}
    exact = all(wire.exact for wire in inputs)
    merged = [token for part in parts for token in part]
    return merged, exact and len(patterns) <= 1, exact and len(payloads) <= 1


# -- strategies -----------------------------------------------------------------------------------


@st.composite
def level_lists(draw: Draw, rank: int | None = None, max_tokens: int = 10) -> list[int]:
    """Levels of a stream: ragged chunks of some rank, the outermost dim closed or not."""
    depth = draw(st.integers(0, 3)) if rank is None else rank

    def chunk(level: int) -> list[int]:
        if level == 0:
            return [0]
        inner = [token for _ in range(draw(st.integers(1, 3))) for token in chunk(level - 1)]
        return [*inner[:-1], level]

    levels: list[int] = []
    for _ in range(draw(st.integers(0, 5)) if draw(st.booleans()) else draw(st.integers(1, 3))):
        following = chunk(depth)
        if len(levels) + len(following) > max_tokens:
            break
        levels += following
    if levels and rank is None and draw(st.booleans()):
        levels[-1] += 1
    return levels


tile_shapes = st.tuples(st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 8, 16, 33, 64]))


@st.composite
def float_tokens(
    draw: Draw, levels: list[int], bpe: float, shapes: list[tuple[int, int]] | None = None
) -> Content:
    """Float tiles for the given levels; some streams are partly padded, some lie in memory."""
    if shapes is None:
        shapes = [draw(tile_shapes)] * len(levels)
    rd, padded = draw(st.booleans()), draw(st.integers(0, 3)) == 3
    content = []
    for level, (rows, cols) in zip(levels, shapes, strict=True):
        off = draw(st.integers(0, rows)) if padded else rows
        content.append((level, tile(rows, cols, bpe, rd, off)))
    return content


@st.composite
def integer_tokens(draw: Draw, levels: list[int], low: int = 0, high: int = 4) -> Content:
    """Integer tiles with small values."""
    return [(level, integer(draw(st.integers(low, high)))) for level in levels]


# Bounded runs have engines of their own, which `make test` has no time to compile.
_BOUNDS = [None] if FEW else [None, None, None, 1, 2, 7, 64]


@st.composite
def timings(draw: Draw, max_slack: int = 2) -> TimingParams:
    """Machine numbers: few and odd channel counts, every interval, no startup at all."""
    return TimingParams(
        onchip_bytes_per_cycle=draw(st.sampled_from([64, 16, 256])),
        request_bytes=draw(st.sampled_from([64, 32])),
        hbm_channels=draw(st.sampled_from([4, 1, 2, 3, 5, 8, 12, 32, 33])),
        hbm_interval=draw(st.integers(1, 4)),
        hbm_latency=draw(st.integers(0, 3)),
        hbm_startup=draw(st.sampled_from([0, 3, 14])),
        closure_slack=draw(st.integers(0, max_slack)),
        memory_model=draw(st.sampled_from(["published", "interleaved", "uncontended"])),
        outstanding=draw(st.sampled_from(_BOUNDS)),
        model=draw(st.sampled_from(["step-2025", "step-2026"])),
    )
