"""A mixture of experts on several chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError
from stepsim.graph import fn
from stepsim.graph.handle import StreamHandle
from stepsim.graph.nn.expert_rows import (
    packed_rows,
    rows_of_tile,
    tensors_of_experts,
    unpacked_rows,
)
from stepsim.graph.nn.feed_forward import swiglu
from stepsim.graph.nn.parallel.division import Streams, slice_of
from stepsim.graph.nn.parallel.experts import DividedExperts, ExpertChip, summed_rows
from stepsim.graph.nn.parallel.steps import check_algorithm, members
from stepsim.graph.nn.routing import table_of_rows
from stepsim.graph.ops.routing.routing_table import Routing
from stepsim.graph.programs.chips import chip
from stepsim.graph.programs.groups import Groups
from stepsim.graph.sizes.limits import CHIPS
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec


class MoeOnChips:
    """A call of :func:`stepsim.graph.nn.experts.moe` with ``tp`` or ``ep``."""

    def __init__(
        self, x: Streams, table: Any, matrices: Mapping[str, Any], weights: Any, tp: object,
        ep: object, collective: str | None, label: str | None, compute_bw: int | None,
    ) -> None:  # fmt: skip
        single = isinstance(x, StreamHandle)
        given = [x] if single else x
        self.layer, self.xs, self.chips = members("moe", given, None, compute_bw, label, "x")
        members_of_group = self.layer.number(CHIPS, "tp", 1 if tp is None else tp)
        parts = self.layer.number(CHIPS, "ep", 1 if ep is None else ep)
        if single:
            first = self.chips[0]
            self.xs = self.xs * members_of_group
            self.chips = tuple(range(first, first + members_of_group))
        count = len(self.xs)
        self.layer.require(
            count % members_of_group == 0, ArgError,
            f"x is {count} streams, which is not a multiple of tp {members_of_group}",
            "give a list with the streams of the tp members of each group",
        )  # fmt: skip
        self.groups = Groups(members_of_group, parts, 1, count // members_of_group)
        self.layer.require(
            not self.groups.wrong_ep, ArgError, f"ep: {self.groups.wrong_ep}",
            f"dp, the groups, is the number of streams of x divided by tp: {self.groups.dp}",
        )  # fmt: skip
        self.collective = "ring" if collective is None else collective
        self.layer.require(
            collective is None or members_of_group > 1, ArgError,
            "collective has no effect with tp 1, which has no sums", "leave it out",
        )  # fmt: skip
        check_algorithm(self.layer, self.collective, members_of_group, "collective")
        self.tables = self._tables(table)
        self.experts = self.tables[0].experts
        self.layer.require(
            self.experts % parts == 0, ArgError,
            f"ep {parts} does not divide the {self.experts} experts of the table",
        )  # fmt: skip
        self.matrices = self._matrices(matrices)
        self.weights = None if weights is None else self._weights(weights, single=single)

    def results(self, tile: int | str, inner: int | None, write_back: bool) -> list[Stream]:
        """The result of each stream."""
        groups, layer, bw = self.groups, self.layer, self.layer.compute_bw
        rows = rows_of_tile(layer, tile)
        layer.require(
            not layer.flag("write_back", write_back), ArgError,
            "write_back has no effect on several chips", "leave it out",
        )  # fmt: skip
        made = [
            [self._member(d, t, rows, inner) for t in range(groups.tp)] for d in range(groups.dp)
        ]
        routing = [np.asarray(table.indices, dtype=np.int64) for table in self.tables]
        divided = DividedExperts(groups, made, routing, self.experts // groups.ep, bw, layer.part)
        found = []
        for group, parts in zip(made, divided.results(), strict=True):
            own = [member.chip for member in group]
            found += summed_rows(parts, own, self.collective, compute_bw=bw, named=layer.part)
        return found

    def _member(self, d: int, t: int, tile: int | str, inner: int | None) -> ExpertChip:
        groups, layer = self.groups, self.layer
        at = d * groups.tp + t
        number, first = self.chips[at], d - d % groups.across
        # Rows of all groups of the exchange may come to an expert.
        most = max(sum(one.rows for one in self.tables[first : first + groups.across]), 2)
        weights = None if self.weights is None else self.weights[at]
        if weights is not None:
            with chip(number):
                weights = layer.accum("weights_of_rows", weights, fn.pack_cols)

        def results(rows: Sequence[Stream], names: Sequence[str]) -> list[Stream]:
            found = []
            for name, part in zip(names, rows, strict=True):
                e = int(name)
                y = swiglu(
                    packed_rows(layer, e, part, tile),
                    *(self._part(what, e, t, number) for what in self.matrices), tile=inner,
                    compute_bw=layer.compute_bw, label=layer.part(f"expert.{e}"),
                )  # fmt: skip
                found.append(unpacked_rows(layer, e, y).with_depth(most))
            return found

        return ExpertChip(number, self.xs[at], weights, results)

    def _part(self, what: str, e: int, member: int, number: int) -> TensorSpec:
        """The hidden columns of a matrix of an expert that a member of a group has."""
        tensor, axis = self.matrices[what][e], int(what != "down")
        each = tensor.shape[axis] // self.groups.sharing
        return slice_of(tensor, axis, member % self.groups.sharing * each, each, number)

    def _tables(self, given: Any) -> list[Routing]:
        layer, groups = self.layer, self.groups
        tables = [given] if isinstance(given, Routing) else given
        layer.require(
            isinstance(tables, list | tuple) and len(tables) == groups.dp, ArgError,
            f"table must be a list of {groups.dp} routings, one of each group, found "
            f"{shown(given)}",
        )  # fmt: skip
        for i, x in enumerate(self.xs):
            table_of_rows(layer, x, tables[i // groups.tp])
        for d, table in enumerate(tables):
            layer.require(
                table.experts == tables[0].experts, ArgError,
                f"table[{d}] is of {table.experts} experts, table[0] of {tables[0].experts}",
            )  # fmt: skip
            layer.require(
                table.indices is not None, ArgError,
                f"table[{d}] is bound with each run, and a program on several chips is for one "
                "routing", "pass the array of experts to st.routing()",
            )  # fmt: skip
        return list(tables)

    def _matrices(self, given: Mapping[str, Any]) -> dict[str, list[TensorSpec]]:
        layer, sharing = self.layer, self.groups.sharing
        columns, made = layer.columns("x", self.xs[0]), dict[str, list[TensorSpec]]()
        for role, tensors in given.items():
            found = tensors_of_experts(layer, role, tensors, self.experts)
            hidden = None if role == "gate" else made["gate"][0].shape[1]
            sides = (hidden, columns) if role == "down" else (columns, hidden)
            made[role] = [layer.matrix(f"{role}[{e}]", one, *sides) for e, one in enumerate(found)]
        hidden = made["gate"][0].shape[1]
        layer.require(
            hidden % sharing == 0, ArgError,
            f"{sharing} members of a group do not divide the {hidden} hidden columns of an expert",
        )  # fmt: skip
        return made

    def _weights(self, given: Any, *, single: bool) -> list[Stream]:
        layer, count = self.layer, len(self.xs)
        listed = [given] * count if single and isinstance(given, StreamHandle) else given
        layer.require(
            isinstance(listed, list | tuple) and len(listed) == count
            and all(isinstance(x, StreamHandle) for x in listed), ArgError,
            f"weights must be a list of {count} streams, one for each of x, found {shown(given)}",
            "on several chips they are those of st.nn.chosen_weights()",
        )  # fmt: skip
        for i, x in enumerate(listed):
            table, tile = self.tables[i // self.groups.tp], layer.tile(f"weights[{i}]", x)
            layer.require(
                tile.rows == 1 and tile.cols == 1, DTypeError,
                f"weights[{i}] must carry tiles of 1x1, found {tile}",
            )  # fmt: skip
            layer.require(
                x.rank == 1 and x.shape[0] == table.rows and x.shape[1] == table.k, ArgError,
                f"weights[{i}] is {x.describe()}, expected [{table.rows}, {table.k}]",
            )  # fmt: skip
        return list(listed)
