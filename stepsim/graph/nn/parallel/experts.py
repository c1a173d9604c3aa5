"""Experts on several chips.

Members of a group that have all of its rows compute those that use their experts, and an all-reduce
adds up their results. Where the groups of an exchange have different experts, a row goes once to
each chip that has some of its experts, with the weights of all of them, and that chip sends back
the sum of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.graph import fn
from stepsim.graph.functions.define import function
from stepsim.graph.nn.parallel.collectives import all_reduce
from stepsim.graph.nn.parallel.exchange import combine_rows, dispatch_rows
from stepsim.graph.ops.flat_map.cutting import unpack_cols, unpack_rows
from stepsim.graph.ops.higher_order.maps import map as map_stream
from stepsim.graph.ops.routing.merging import reassemble
from stepsim.graph.ops.routing.partitioning import partition
from stepsim.graph.ops.sources import selector
from stepsim.graph.programs.chips import chip
from stepsim.graph.programs.groups import Groups
from stepsim.graph.stream import Stream

Table = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class ExpertChip:
    """A chip that has some of the experts.

    Attributes
    ----------
    chip : its number.
    rows : all rows of its group in their order, in FIFOs that hold them.
    weights : of the experts of each row, ``[rows]`` of ``[1, k]``; None adds plain results.
    experts : result rows of each of its experts, from the rows sent to each and the names of all.
    """

    chip: int
    rows: Stream
    weights: Stream | None
    experts: Callable[[Sequence[Stream], Sequence[str]], Sequence[Stream]]


@dataclass(frozen=True)
class DividedExperts:
    """The experts of a layer.

    Attributes
    ----------
    members : of each group.
    routing : the experts of the rows of each group.
    count : experts of a chip.
    compute_bw : FLOPs per cycle of the products with weights and of the sums.
    named : the label of an operator.
    """

    groups: Groups
    members: Sequence[Sequence[ExpertChip]]
    routing: Sequence[Table]
    count: int
    compute_bw: int | None = None
    named: Callable[[str], str] = str

    def results(self) -> list[list[Stream]]:
        """The sums of the results of the experts of each chip, or of those of an exchange."""
        found: dict[tuple[int, int], Stream] = {}
        for groups in self.groups.exchanges:
            for t in range(self.groups.tp):
                members = [self.members[d][t] for d in groups]
                tables = [self.routing[d] for d in groups]
                blocks = [self.groups.block(d, t) for d in groups]
                made = (
                    [self._all_here(members[0], tables[0])]
                    if self.groups.ep == 1
                    else self._exchanged(members, tables, blocks)
                )
                found |= {(d, t): x for d, x in zip(groups, made, strict=True)}
        return [[found[d, t] for t in range(self.groups.tp)] for d in range(self.groups.dp)]

    def _all_here(self, member: ExpertChip, table: Table) -> Stream:
        """A chip with all experts."""
        with chip(member.chip):
            return self._own(member, member.rows, member.weights, table, range(self.count))

    def _exchanged(
        self, members: Sequence[ExpertChip], tables: Sequence[Table], blocks: Sequence[int]
    ) -> list[Stream]:
        """Results of rows on chips that have different experts."""
        count, named = self.count, self.named
        to = [
            np.column_stack([((table // count) == b).any(axis=1) for b in blocks])
            for table in tables
        ]
        chips = [member.chip for member in members]
        rows = dispatch_rows(
            [member.rows for member in members], to, chips=chips, label=named("dispatch")
        )
        given = [member.weights for member in members if member.weights is not None]
        weights: Sequence[Stream | None] = [None] * len(members)
        if given:
            weights = dispatch_rows(given, to, chips=chips, label=named("dispatch_weights"))
        results = []
        for j, (member, block) in enumerate(zip(members, blocks, strict=True)):
            received, own = _received(tables, [one[:, j] for one in to]), weights[j]
            held = range(block * count, (block + 1) * count)
            with chip(member.chip):
                if len(received):
                    done = self._own(member, rows[j], own, received, held)
                else:
                    if own is not None:
                        own.consume(label=named("no_weights"))
                    done = rows[j]
                results.append(done)
        nowhere: list[Table] = [np.asarray(~one.any(axis=1), dtype=np.int64) for one in to]
        otherwise = None
        if any(one.any() for one in nowhere):
            otherwise = [
                self._zeros(member, which) for member, which in zip(members, nowhere, strict=True)
            ]
        return combine_rows(
            results, to, otherwise=otherwise, chips=chips, compute_bw=self.compute_bw,
            label=named("combine"),
        )  # fmt: skip

    def _own(
        self, member: ExpertChip, rows: Stream, weights: Stream | None, table: Table, held: range
    ) -> Stream:
        """The weighted sums of the results of the experts of a chip, for rows that use some."""
        named, bw = self.named, self.compute_bw
        own = table[:, :, None] == np.asarray(held)
        hot = own.any(axis=1).astype(int)
        names = [str(e) for e in held]
        to = selector(hot, label=named("route"))
        sent = partition(rows, to, rank=0, label=named("dispatch_to_experts"))
        done = member.experts(sent, names)
        if weights is not None:
            pairs = weights.flat_map(unpack_cols(chunk=1), label=named("weights"))
            which = selector(own.reshape(-1, len(held)).astype(int), label=named("route_weights"))
            each = partition(pairs, which, rank=0, label=named("weights_of_experts"))
            counts = hot.sum(axis=0).tolist()
            done = [
                map_stream(
                    fn.mul, one.with_depth(max(count, 2)), x, compute_bw=bw,
                    label=named(f"scale.{e}"),
                )
                for e, one, x, count in zip(names, each, done, counts, strict=True)
            ]  # fmt: skip
        collect = selector(hot, label=named("collect"))
        joined = reassemble(done, collect, rank=0, label=named("combine_experts"))
        return joined.accum(fn.add, 1, compute_bw=bw, label=named("sum_experts"))

    def _zeros(self, member: ExpertChip, which: Table) -> Stream:
        """Rows of zeros for rows that use none of the experts of an exchange's chips."""
        with chip(member.chip):
            elsewhere = selector(which[:, None], label=self.named("is_elsewhere"))
            (rows,) = partition(member.rows, elsewhere, rank=0, label=self.named("elsewhere"))
            zeros = map_stream(_NOTHING, rows, label=self.named("no_result"))
            return zeros.with_depth(max(int(which.sum()), 2))


def summed_rows(
    parts: Sequence[Stream], chips: Sequence[int], collective: str, *,
    compute_bw: int | None = None, named: Callable[[str], str] = str,
) -> list[Stream]:  # fmt: skip
    """The sum of the rows of the members of a group on each of them, reduced as one tile."""
    if len(parts) == 1:
        return list(parts)
    tiles = []
    for number, x in zip(chips, parts, strict=True):
        with chip(number):
            rows = x.reshape(int(x.cardinality()), label=named("partial_rows"))
            packed = rows.accum(fn.pack_rows, 1, compute_bw=compute_bw, label=named("pack_partial"))
            tiles.append(packed)
    sums = all_reduce(
        tiles, algorithm=collective, compute_bw=compute_bw, label=named("reduce_network")
    )
    made = []
    for number, x in zip(chips, sums, strict=True):
        with chip(number):
            made.append(x.flat_map(unpack_rows(), label=named("network_rows")))
    return made


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


# Zeros take a cycle and no FLOPs, like other functions that move scalars about.
_NOTHING = function("nothing", "same", 0, 1, np.zeros_like)
