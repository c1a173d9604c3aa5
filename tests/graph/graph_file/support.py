"""Graphs for tests: bytes by hand, a shipped file, comparison of networks."""

from __future__ import annotations

from typing import Any

import numpy as np

import stepsim as st
from stepsim.graph.graph_file.messages import schema_of
from stepsim.graph.graph_file.numbers import numbers_of
from tests.shared import SHARED

__all__ = ["MOE", "SELECTED", "block", "built_by_hand", "edited", "moe_routing", "number", "small",
           "unalike"]  # fmt: skip

MOE = SHARED / "data" / "graph_pb" / "test_moe_graph.pb"

SELECTED = np.eye(2, dtype=int)[np.arange(16) % 2]


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes | list[int] | str) -> bytes:
    """A field that is a message, a text or packed numbers."""
    if isinstance(content, list):
        content = b"".join(map(varint, content))
    elif isinstance(content, str):
        content = content.encode()
    return varint(field << 3 | 2) + varint(len(content)) + content


def built_by_hand(cols: int = 3) -> bytes:
    """The graph N=1_small_tiles of NextStep, byte by byte; ``cols`` numbers static columns."""
    dtype = block(2, number(1, 64) + number(cols, 16))
    load = (
        block(1, [16, 64]) + block(2, [64, 1]) + block(3, [16, 64]) + number(5, 64)
        + number(6, 16) + number(7, 4) + block(8, dtype) + number(9, 4)
    )  # fmt: skip
    store = (
        number(1, 126) + block(3, [16, 64]) + number(5, 64) + number(6, 16) + block(7, dtype)
        + number(8, 4)
    )  # fmt: skip
    first = block(1, "LinearOffChipLoad_126") + number(2, 126) + block(12, load)
    second = block(1, "OffChipStore_127") + number(2, 127) + block(13, store)
    return block(2, first) + block(2, second)


def small() -> st.Program:
    """A program of many families: routing, a merge, buffers, an accumulation."""
    with st.Program("small", compute_bw=8) as program:
        x = st.linear_load(st.spec(64, 64, dtype="f32"), (16, 16)).flatten(0, 1)
        left, right = st.partition(x, st.selector(SELECTED))
        merged, which = st.eager_merge([left.map(st.fn.silu), right])
        which.consume()
        packed = merged.reshape(4, pad=0).accum(st.fn.pack_rows, 1)
        again = packed.unsqueeze(0).bufferize(1).streamify(repeat=3)
        again.flatten(0, 1).consume()
    return program


def moe_routing(seed: int = 0) -> Any:
    """Two different experts of 8 for each of 64 tokens."""
    rng = np.random.default_rng(seed)
    return rng.permuted(np.tile(np.arange(8), (64, 1)), axis=1)[:, :2]


def edited(data: bytes, change: Any, generation: str = "B") -> bytes:
    """The bytes of a graph whose operators ``change`` has edited."""
    graph = schema_of(numbers_of(generation)).parse(data, "test")
    change(graph.operators)
    return bytes(graph.SerializeToString())


def unalike(one: st.graph.Wiring, other: st.graph.Wiring) -> list[str]:
    """Units of two networks that differ in kind, FIFOs or parameters.

    Padding that never happens, and whether a size is known before a run, are no difference.
    """
    found = []
    for a, b in zip(one.units, other.units, strict=True):
        left, right = dict(a.params), dict(b.params)
        for params in (left, right):
            params.pop("pad", None)
            if isinstance(params.get("fn"), list):
                params["fn"] = [params["fn"][0].removeprefix("Dyn"), *params["fn"][1:]]
        if (a.kind, a.inputs, a.outputs, left) != (b.kind, b.inputs, b.outputs, right):
            found.append(f"{a.name}: {left} {right}")
    return found
