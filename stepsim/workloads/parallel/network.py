"""The feed-forward network of a layer on several chips.

A dense network, the shared expert and experts that members share are divided by inner columns: the
results of the members of a group are parts of a sum, which an all-reduce adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepsim.graph import DividedExperts, ExpertChip, Stream, chip, summed_rows
from stepsim.workloads.decoder.feed_forward import FeedForward
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import MoEShape
from stepsim.workloads.moe.build import pack, padding_flops, with_shared
from stepsim.workloads.parallel.split import Split, Table


@dataclass(frozen=True)
class Member:
    """A chip that computes a part of the network.

    Attributes
    ----------
    chip : its number.
    network : its part of the experts, or of the dense network.
    rows : what the network reads, all rows of its group in their order.
    weights : of the experts of each row, ``[rows]`` of ``[1, k]``; None in a dense network.
    """

    chip: int
    network: FeedForward
    rows: Stream
    weights: Stream | None

    def experts(self, rows: Sequence[Stream], names: Sequence[str]) -> list[Stream]:
        """The results of the rows of each expert."""
        network = self.network
        return network.experts(pack(rows, names, network.tile, network.compute_bw), names)


@dataclass(frozen=True)
class Network:
    """The network of a stage.

    Attributes
    ----------
    members : of each group.
    routing : of the rows of each group; None for a dense network.
    collective : the algorithm of all-reduces.
    """

    split: Split
    members: Sequence[Sequence[Member]]
    routing: Sequence[Table] | None
    collective: str

    def results(self) -> list[list[Stream]]:
        """The results of the rows of each group, on each of its members."""
        parts: list[list[Stream]] = (
            [[*map(self._dense, group)] for group in self.members]
            if (self.routing is None)
            else self._experts(self.routing)
        )
        return [
            self._reduced([*map(self._with_shared, group, own)], group)
            for group, own in zip(self.members, parts, strict=True)
        ]

    def _dense(self, member: Member) -> Stream:
        with chip(member.chip):
            (result,) = member.experts([member.rows], ["0"])
            return result

    def _with_shared(self, member: Member, result: Stream) -> Stream:
        network = member.network
        if not network.shape.shared_inner:
            return result
        with chip(member.chip):
            return with_shared(
                result, member.rows, network.shape, network.types, network.tile,
                network.tile_inter, network.compute_bw,
            )  # fmt: skip

    def _reduced(self, parts: list[Stream], group: Sequence[Member]) -> list[Stream]:
        """The sum of the parts of a group on each of its members."""
        return summed_rows(parts, [member.chip for member in group], self.collective)

    def _experts(self, routing: Sequence[Table]) -> list[list[Stream]]:
        """The sums of the results of the experts of each chip, or of those of an exchange."""
        members = [
            [
                ExpertChip(member.chip, member.rows, member.weights, member.experts)
                for member in group
            ]
            for group in self.members
        ]
        count = self.members[0][0].network.shape.experts
        return DividedExperts(self.split, members, routing, count).results()


def padding(split: Split, shape: MoEShape, tile: int | str, data: Data, *, dense: bool) -> int:
    """FLOPs on padding rows of all chips of a stage."""
    total = 0
    groups = [split.data(data, d) for d in range(split.dp)]
    routed, alone = replace(shape, shared_inner=0), replace(shape, experts=1, active=1)
    for group in groups:
        if dense:
            total += padding_flops(routed, tile, [group.tokens])
        elif shape.shared_inner:
            only = replace(alone, inner_dim=shape.shared_inner, shared_inner=0)
            total += padding_flops(only, tile, [group.tokens])
    if not dense:
        for own in split.exchanges:
            tables = [split.routing(data, d, shape.experts, shape.active) for d in own]
            every = np.concatenate([table.ravel() for table in tables])
            loads = np.bincount(every, minlength=shape.experts).tolist()
            total += padding_flops(routed, tile, loads)
    return total
