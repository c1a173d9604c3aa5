"""Layers on several chips: the stages of each chip's part, and the sums between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from stepsim.graph import (
    Program,
    Stream,
    chip,
    fn,
    linear_load,
    map as map_stream,
    nn,
    partition,
    selector,
)
from stepsim.workloads.decoder.feed_forward import FeedForward
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.parallel.network import Member, Network
from stepsim.workloads.parallel.split import Split, Table
from stepsim.workloads.tensors import tensor_of


class ChipLayer(Protocol):
    """The part of a layer that one chip has, under construction."""

    sizes: dict[Any, Any]

    @property
    def network(self) -> FeedForward:
        """The experts or the dense network."""

    def hidden(self) -> list[Stream]:
        """The hidden rows of every region as one tile ``[1]``, read from off chip."""

    def regions_of(self, rows: Stream) -> list[Stream]:
        """The same from all rows, in their order."""

    def attended(self, hidden: Sequence[Stream]) -> list[Stream]:
        """A part of the sums behind the output projection, a tile ``[1]`` of every region."""

    def sums(self, hidden: Sequence[Stream], tiles: Sequence[Stream]) -> list[Stream]:
        """The rows of every region behind attention, with those before it added."""

    def inputs(
        self, tiles: Sequence[Stream], experts: int | None
    ) -> tuple[Stream, Stream, Stream | None]:
        """All rows, the same behind the norm, and their products with a router of all experts."""


@dataclass(frozen=True)
class Layers:
    """Layers of a program, one of each stage; streams are by group and by member of the group.

    Attributes
    ----------
    make : the part of a layer that each chip of a group has.
    routing : experts of the rows of each group; None with a dense network.
    experts : of all chips.
    collective : the algorithm of all-reduces.
    residual : rows are added to the results of the network.
    turns : of chips that are busy with a batch before, a stream ``[1]`` that ends it.
    """

    split: Split
    program: Program
    make: Callable[[int], ChipLayer]
    routing: Sequence[Table] | None
    experts: int | None
    collective: str
    residual: bool = True
    turns: Mapping[int, Stream] = field(default_factory=dict)
    done: dict[int, Stream] = field(default_factory=dict)
    sizes: dict[Any, Any] = field(default_factory=dict)

    def results(self) -> list[list[Stream]]:
        """The rows behind the last layer."""
        rows: list[list[Stream]] = []
        for stage in range(self.split.pp):
            rows = self._network(stage, self.attended(stage, rows))
            for d, group in enumerate(rows):
                for t, x in enumerate(group):
                    self.done[self.split.chip(stage, d, t)] = x
        return rows

    def ends(self) -> dict[int, Stream]:
        """For each chip an element ``[1]`` when the last row of its results is there."""
        found = {}
        for number, rows in self.done.items():
            with chip(number):
                every = rows.promote(label="rows_of_batch")
                found[number] = every.accum(fn.signal, 1, label="end_of_batch").assume_shape(1)
        return found

    def _in_turn(self, number: int, tiles: Sequence[Stream]) -> list[Stream]:
        """Tiles ``[1]`` that a chip gets when the batch before is done."""
        end = self.turns.get(number)
        if end is None:
            return list(tiles)
        return [map_stream(fn.part(0, 2), x, end, label=f"turn.{r}") for r, x in enumerate(tiles)]

    def attended(
        self, stage: int, before: Sequence[Sequence[Stream]] = ()
    ) -> list[list[tuple[ChipLayer, list[Stream]]]]:
        """The layer of each chip, and the rows of its regions behind attention."""
        found = []
        for d in range(self.split.dp):
            layers, hidden, tiles = [], [], []
            for t in range(self.split.tp):
                layer = self.make(d)
                with chip(self.split.chip(stage, d, t)):
                    read = layer.regions_of(before[d][t]) if before else layer.hidden()
                    read = self._in_turn(self.split.chip(stage, d, t), read)
                    hidden.append(read)
                    tiles.append(layer.attended(read))
                    self.sizes.update(layer.sizes)
                layers.append(layer)
            own = []
            for t, (layer, sums) in enumerate(zip(layers, self._reduced(tiles), strict=True)):
                with chip(self.split.chip(stage, d, t)):
                    own.append((layer, layer.sums(hidden[t], sums)))
            found.append(own)
        return found

    def _reduced(self, tiles: list[list[Stream]]) -> list[list[Stream]]:
        """The sums over the members of a group of the tile of each region, on each member."""
        if self.split.tp == 1 or not tiles[0]:
            return tiles
        every = [
            nn.all_reduce(regions, algorithm=self.collective, label=f"reduce_attention.{r}")
            for r, regions in enumerate(zip(*tiles, strict=True))
        ]
        return [list(own) for own in zip(*every, strict=True)]

    def _network(
        self, stage: int, attended: Sequence[Sequence[tuple[ChipLayer, list[Stream]]]]
    ) -> list[list[Stream]]:
        """The rows behind the network of a stage."""
        residuals, members = [], []
        for d, group in enumerate(attended):
            made = [self._member(stage, d, t, *own) for t, own in enumerate(group)]
            residuals.append([rows for rows, _ in made])
            members.append([member for _, member in made])
        results = Network(self.split, members, self.routing, self.collective).results()
        if not self.residual:
            return results
        return [
            [
                self._sum(member.chip, rows, result)
                for member, rows, result in zip(group, before, after, strict=True)
            ]
            for group, before, after in zip(members, residuals, results, strict=True)
        ]

    def _member(
        self, stage: int, d: int, t: int, layer: ChipLayer, tiles: Sequence[Stream]
    ) -> tuple[Stream, Member]:
        """The rows behind attention, and the part of the network that a chip computes."""
        number = self.split.chip(stage, d, t)
        with chip(number):
            rows, normed, scores = layer.inputs(tiles, self.experts)
            count = max(int(rows.dim(0)), 2)
            rows, normed = rows.with_depth(count), normed.with_depth(count)
            weights = None
            if self.routing is not None:
                weights = _weights(scores, self.routing[d], layer.network.types)
        return rows, Member(number, layer.network, normed, weights)

    def _sum(self, number: int, rows: Stream, result: Stream) -> Stream:
        with chip(number):
            return map_stream(fn.add, rows, result, label="experts_residual")


def _weights(scores: Stream | None, table: Table, types: ElementTypes) -> Stream:
    """The weights of the experts of each row as one tile, ``[rows]`` of ``[1, k]``.

    They are those of the router, or were left off chip by one.
    """
    rows, k = table.shape
    if scores is not None:
        chosen = nn.chosen_weights(scores, table, label="router")
        return chosen.accum(fn.pack_cols, 1, label="weights_of_rows")
    stored = tensor_of(rows, k, dtype=types.activations, name="router_scales")
    loaded = linear_load(stored, (1, k), shape=(rows, 1), stride=(1, 1), label="router_scales")
    return loaded.flatten(0, 1, label="weights_of_rows")


def in_regions(rows: Stream, regions: Table, counts: Sequence[int]) -> list[Stream]:
    """The rows of each region as one tile ``[1]``, from all rows and the region of each."""
    to = selector(np.eye(len(counts), dtype=int)[regions], label="region_of_row")
    parts = partition(rows, to, rank=0, label="regions")
    return [
        x.assume_shape(counts[r])
        .reshape(counts[r], label=f"hidden_rows.{r}")
        .accum(fn.pack_rows, 1, label=f"hidden.{r}")
        for r, x in enumerate(parts)
    ]
