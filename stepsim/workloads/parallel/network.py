"""The feed-forward network of a layer on several chips.

A dense network, the shared expert and experts that members share are divided by inner columns: the
results of the members of a group are parts of a sum, which an all-reduce adds up. Where the groups
of an exchange have different experts, a row goes once to each chip that has some of its experts,
with the weights of all of them, and that chip sends back the weighted sum of its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepsim.graph import (
    Stream,
    chip,
    fn,
    function,
    map as map_stream,
    nn,
    partition,
    reassemble,
    selector,
)
from stepsim.workloads.decoder.feed_forward import FeedForward
from stepsim.workloads.models import MoEShape
from stepsim.workloads.moe.build import pack, padding_flops, with_shared
from stepsim.workloads.parallel.split import Split, Table
from stepsim.workloads.parameters import Data


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
            network = member.network
            (result,) = network.experts(
                pack([member.rows], ["0"], network.tile, network.compute_bw), ["0"]
            )
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
        if self.split.tp == 1:
            return parts
        tiles = []
        for member, x in zip(group, parts, strict=True):
            with chip(member.chip):
                rows = x.reshape(int(member.rows.dim(0)), label="partial_rows")
                tiles.append(rows.accum(fn.pack_rows, 1, label="pack_partial"))
        sums = nn.all_reduce(tiles, algorithm=self.collective, label="reduce_network")
        made = []
        for member, x in zip(group, sums, strict=True):
            with chip(member.chip):
                made.append(x.flat_map(fn.unpack_rows(), label="network_rows"))
        return made

    def _experts(self, routing: Sequence[Table]) -> list[list[Stream]]:
        """The sums of the results of the experts of each chip, or of those of an exchange."""
        found: dict[tuple[int, int], Stream] = {}
        for groups in self.split.exchanges:
            for t in range(self.split.tp):
                members = [self.members[d][t] for d in groups]
                tables = [routing[d] for d in groups]
                blocks = [self.split.block(d, t) for d in groups]
                made = (
                    [self._all_here(members[0], tables[0])]
                    if self.split.ep == 1
                    else self._exchanged(members, tables, blocks)
                )
                found |= {(d, t): x for d, x in zip(groups, made, strict=True)}
        return [[found[d, t] for t in range(self.split.tp)] for d in range(self.split.dp)]

    def _all_here(self, member: Member, table: Table) -> Stream:
        """A chip with all experts."""
        assert member.weights is not None
        count = member.network.shape.experts
        with chip(member.chip):
            return _own_experts(member.network, member.rows, member.weights, table, range(count))

    def _exchanged(
        self, members: Sequence[Member], tables: Sequence[Table], blocks: Sequence[int]
    ) -> list[Stream]:
        """Results of rows on chips that have different experts."""
        count = members[0].network.shape.experts
        held = [range(b * count, (b + 1) * count) for b in blocks]
        to = [
            np.column_stack([((table // count) == b).any(axis=1) for b in blocks])
            for table in tables
        ]
        chips = [member.chip for member in members]
        rows = nn.dispatch_rows(
            [member.rows for member in members], to, chips=chips, label="dispatch"
        )
        weights = nn.dispatch_rows(
            [member.weights for member in members if member.weights is not None], to,
            chips=chips, label="dispatch_weights",
        )  # fmt: skip
        results = []
        for j, member in enumerate(members):
            received = _received(tables, [one[:, j] for one in to])
            with chip(member.chip):
                if len(received):
                    done = _own_experts(member.network, rows[j], weights[j], received, held[j])
                else:
                    weights[j].consume(label="no_weights")
                    done = rows[j]
                results.append(done)
        nowhere: list[Table] = [np.asarray(~one.any(axis=1), dtype=np.int64) for one in to]
        otherwise = None
        if any(one.any() for one in nowhere):
            otherwise = [
                _zeros(member, which) for member, which in zip(members, nowhere, strict=True)
            ]
        return nn.combine_rows(results, to, otherwise=otherwise, chips=chips, label="combine")


def _received(tables: Sequence[Table], to: Sequence[Table]) -> Table:
    """The experts of the rows that a chip gets, in the order of `st.nn.dispatch_rows`."""
    rows = [np.flatnonzero(one) for one in to]
    sources = np.repeat(np.arange(len(tables)), [len(one) for one in rows])
    every = np.concatenate(rows)
    order = np.lexsort((sources, every))
    found: Table = np.concatenate([table[own] for table, own in zip(tables, rows, strict=True)])[
        order
    ]
    return found


def _own_experts(
    network: FeedForward, rows: Stream, weights: Stream, table: Table, held: range
) -> Stream:
    """The weighted sums of the results of the experts that a chip has, for rows that use some."""
    own = table[:, :, None] == np.asarray(held)
    hot = own.any(axis=1).astype(int)
    names = [str(e) for e in held]
    sent = partition(rows, selector(hot, label="route"), rank=0, label="dispatch_to_experts")
    done = network.experts(pack(sent, names, network.tile, network.compute_bw), names)
    pairs = weights.flat_map(fn.unpack_cols(chunk=1), label="weights")
    each = partition(
        pairs, selector(own.reshape(-1, len(held)).astype(int), label="route_weights"), rank=0,
        label="weights_of_experts",
    )  # fmt: skip
    scaled = [
        map_stream(fn.mul, one.with_depth(max(count, 2)), x, label=f"scale.{e}")
        for e, one, x, count in zip(names, each, done, hot.sum(axis=0).tolist(), strict=True)
    ]
    joined = reassemble(scaled, selector(hot, label="collect"), rank=0, label="combine_experts")
    return joined.accum(fn.add, 1, label="sum_experts")


# Zeros take a cycle and no FLOPs, like other functions that move scalars about.
_NOTHING = function("nothing", "same", 0, 1, np.zeros_like)


def _zeros(member: Member, which: Table) -> Stream:
    """Rows of zeros for rows that use none of the experts of an exchange's chips."""
    with chip(member.chip):
        (rows,) = partition(
            member.rows, selector(which[:, None], label="is_elsewhere"), rank=0,
            label="elsewhere",
        )  # fmt: skip
        zeros = map_stream(_NOTHING, rows, label="no_result")
        return zeros.with_depth(max(int(which.sum()), 2))


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
