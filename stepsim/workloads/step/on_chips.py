"""A step on several chips: stages of groups of chips, with what they send to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepsim.graph import Program, Stream, chip, fn, map as map_stream, nn
from stepsim.workloads.moe.build import store_rows
from stepsim.workloads.parallel.network import Member, Network
from stepsim.workloads.parallel.split import Table
from stepsim.workloads.parameters import Data
from stepsim.workloads.step.layer import StepLayer

if TYPE_CHECKING:
    from stepsim.workloads.step.parameters import Step


def build_on_chips(workload: Step, data: Data, program: Program) -> dict[Any, Any]:
    """The program; returns values of its symbolic sizes."""
    return _StepOnChips(workload, data, program).build()


class _StepOnChips:
    """A step under construction; streams are by group and by member of the group."""

    def __init__(self, workload: Step, data: Data, program: Program) -> None:
        self.whole, self.split, self.program = workload, workload.split, program
        self.workload = replace(
            workload, model=self.split.model(workload.model), tp=1, ep=1, pp=1, dp=1,
            collective="ring",
        )  # fmt: skip
        self.data = [self.split.data(data, d) for d in range(self.split.dp)]
        self.experts: int | None = None
        self.routing: list[Table] = []
        if workload.has_layer:
            shape = workload.layer_model.feed_forward
            self.experts = shape.experts
            self.routing = [
                self.split.routing(data, d, shape.experts, shape.active)
                for d in range(self.split.dp)
            ]
        self.sizes: dict[Any, Any] = {}

    def build(self) -> dict[Any, Any]:
        """Values of the symbolic sizes."""
        rows: list[list[Stream]] = []
        last = self.split.pp - 1
        for stage in range(self.split.pp) if self.whole.has_layer else ():
            rows = self._stage(stage, rows)
        for d in range(self.split.dp):
            for t in range(self.split.tp):
                with chip(self.split.chip(last, d, t)):
                    layer = self._layer(d)
                    if self.whole.has_head:
                        layer.head(rows[d][t] if rows else None)
                    if rows:
                        store_rows(rows[d][t])
        return self.sizes

    def _layer(self, group: int) -> StepLayer:
        return StepLayer(self.workload, self.data[group], self.program)

    def _stage(self, stage: int, before: Sequence[Sequence[Stream]]) -> list[list[Stream]]:
        """The rows behind a layer, of each group on each of its members."""
        layers, residuals, members = [], [], []
        for d in range(self.split.dp):
            own = [self._layer(d) for _ in range(self.split.tp)]
            hidden, tiles = [], []
            for t, layer in enumerate(own):
                with chip(self.split.chip(stage, d, t)):
                    read = layer.regions_of(before[d][t]) if before else layer.hidden()
                    hidden.append(read)
                    tiles.append(layer.attended(read))
                    self.sizes |= layer.sizes
            layers.append(own)
            sums = self._reduced(tiles)
            group = [
                self._member(stage, d, t, layer, hidden[t], sums[t]) for t, layer in enumerate(own)
            ]
            residuals.append([rows for rows, _ in group])
            members.append([member for _, member in group])
        dense = self.workload.layer_model.experts is None
        results = Network(
            self.split, members, None if dense else self.routing, self.whole.collective
        ).results()
        return [
            [
                self._sum(member.chip, rows, result)
                for member, rows, result in zip(members[d], residuals[d], results[d], strict=True)
            ]
            for d in range(self.split.dp)
        ]

    def _reduced(self, tiles: list[list[Stream]]) -> list[list[Stream]]:
        """The sums over the members of a group of the tile of each region, on each member."""
        if self.split.tp == 1:
            return tiles
        every = [
            nn.all_reduce(regions, algorithm=self.whole.collective, label=f"reduce_attention.{r}")
            for r, regions in enumerate(zip(*tiles, strict=True))
        ]
        return [list(own) for own in zip(*every, strict=True)]

    def _member(
        self, stage: int, d: int, t: int, layer: StepLayer, hidden: Sequence[Stream],
        sums: Sequence[Stream],
    ) -> tuple[Stream, Member]:  # fmt: skip
        """The rows behind attention, and the part of the network that a chip computes."""
        number = self.split.chip(stage, d, t)
        with chip(number):
            rows, normed, scores = layer.inputs(layer.sums(hidden, sums), self.experts)
            count = max(int(rows.dim(0)), 2)
            rows, normed = rows.with_depth(count), normed.with_depth(count)
            weights = None
            if scores is not None:
                chosen = nn.chosen_weights(scores, self.routing[d], label="router")
                weights = chosen.accum(fn.pack_cols, 1, label="weights_of_rows")
        return rows, Member(number, layer.network, normed, weights)

    def _sum(self, number: int, rows: Stream, result: Stream) -> Stream:
        with chip(number):
            return map_stream(fn.add, rows, result, label="experts_residual")
