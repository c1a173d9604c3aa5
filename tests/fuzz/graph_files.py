"""Damaged graph files: bytes at random, and messages whose numbers do not fit."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stepsim as st
from stepsim.graph.graph_file.messages import schema_of
from stepsim.graph.graph_file.numbers import numbers_of
from tests.fuzz.mutation import damaged_bytes
from tests.fuzz.reading import outcome, scratch

__all__ = ["one"]

_VALUES = (0, 1, 2, 3, 7, 16, 255, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
_FLAGS = np.eye(2, dtype=int)[np.arange(16) % 2]
_SECONDS = 5


@functools.cache
def _graphs() -> tuple[Path, ...]:
    """Folders of graphs of many families, one of them cyclic."""
    with st.Program("families", compute_bw=8) as families:
        x = st.linear_load(st.spec(64, 64, dtype="f32"), (16, 16)).flatten(0, 1)
        left, right = st.partition(x, st.selector(_FLAGS))
        merged, which = st.eager_merge([left.map(st.fn.silu), right])
        which.consume()
        packed = merged.reshape(4, pad=0).accum(st.fn.pack_rows, 1)
        packed.unsqueeze(0).bufferize(1).streamify(repeat=3).flatten(0, 1).consume()
        index = st.metadata([0, 1, 2])
        reads = index.flat_map(st.fn.cache_read_addresses(4), st.metadata([1, 2, 3]))
        st.linear_store(st.random_load(reads, st.spec(64, 16, dtype="f32"), (4, 16)).flatten(0, 1))
    with st.Program("cyclic", compute_bw=1) as cyclic:
        token = st.Tile.of("u64", 1, 1)
        turns = cyclic.dim("turns")
        loop = st.feedback(token, [turns])
        data, which = st.eager_merge([loop, st.metadata(np.arange(4)[None]).flatten(0, 1)])
        which.consume()
        turn = st.selector(np.eye(2, dtype=int)[[[0, 1, 0, 1]]]).flatten(0, 1)
        again, done = st.partition(data, turn.assume_shape(turns + 4))
        done.consume()
        cyclic.assume_equal(again.shape[0], turns)
        loop.connect(again)
    made = []
    for program in (families, cyclic):
        folder = scratch() / program.name
        folder.mkdir()
        program.to_graph(folder / "graph.pb")
        made.append(folder)
    return tuple(made)


def _numbers(message: Any) -> Iterator[tuple[Any, Any]]:
    """Every number of a message and of those inside it: the message and the field."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inside in value if field.is_repeated else [value]:
                yield from _numbers(inside)
        elif field.type != field.TYPE_STRING:
            yield message, field


def _renumbered(rng: random.Random, data: bytes) -> bytes:
    """The graph with some numbers that may not fit."""
    graph = schema_of(numbers_of("B")).parse(data, "graph")
    places = list(_numbers(graph))
    for _ in range(rng.choice((1, 1, 2, 4))):
        message, field = rng.choice(places)
        value = getattr(message, field.name)
        if field.is_repeated:
            if rng.random() < 0.3:
                del value[:]
            elif value and rng.random() < 0.6:
                value[rng.randrange(len(value))] = rng.choice(_VALUES[:10])
            else:
                value.append(rng.choice(_VALUES[:10]))
        elif field.type == field.TYPE_BOOL:
            setattr(message, field.name, not value)
        else:
            setattr(message, field.name, rng.choice(_VALUES))
    return bytes(graph.SerializeToString())


def one(rng: random.Random) -> str:
    """Damage a graph and read it."""
    graphs = _graphs()
    folder = rng.choice(graphs)
    data, other = ((one / "graph.pb").read_bytes() for one in (folder, graphs[0]))
    content = _renumbered(rng, data) if rng.randrange(4) else damaged_bytes(rng, data, other)
    return outcome(
        lambda: st.load_graph(content, arrays=folder), "load_graph", content, seconds=_SECONDS
    )
