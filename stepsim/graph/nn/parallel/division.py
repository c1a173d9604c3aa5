"""A layer that chips divide: a stream on each of them, their parts of tensors, and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph.handle import StreamHandle
from stepsim.graph.nn.layer import Tensor
from stepsim.graph.nn.parallel.collectives import all_reduce
from stepsim.graph.nn.parallel.steps import check_algorithm, members
from stepsim.graph.programs.chips import chip, name_on
from stepsim.graph.sizes.limits import CHIPS
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec, as_spec

Streams = Stream | Sequence[Stream]
"""One stream, or one on each of several chips."""


class Division:
    """A call of a layer with ``tp``.

    Attributes
    ----------
    xs : the stream of each chip; all are the same one, if a single one is sent to all chips.
    chips : the numbers of the chips.
    """

    def __init__(
        self, name: str, x: Streams, tp: object, label: str | None, compute_bw: int | None = None,
        *, role: str = "x", collective: str | None = None, sent: bool = False,
    ) -> None:  # fmt: skip
        single = isinstance(x, StreamHandle)
        given = [x] if single else x
        self.layer, xs, chips = members(name, given, None, compute_bw, label, role)
        self.count = self.layer.number(CHIPS, "tp", tp)
        self.collective = "ring" if collective is None else collective
        self.layer.require(
            collective is None or self.count > 1, ArgError,
            "collective has no effect with tp 1, which has no sums", "leave it out",
        )  # fmt: skip
        check_algorithm(self.layer, self.collective, self.count, "collective")
        if single and (sent or self.count == 1):
            xs, chips = xs * self.count, tuple(range(chips[0], chips[0] + self.count))
        self.layer.require(
            len(xs) == self.count, ArgError,
            f"{role} is {_counted(len(xs), 'stream')}, tp is {self.count}",
            f"give a list with a stream on each of {self.count} chips"
            + (", or a single one, which is sent to all" if sent else ""),
        )  # fmt: skip
        self.xs, self.chips = xs, chips

    def streams(self, role: str, given: object) -> tuple[Stream, ...]:
        """Further streams, one on each of the chips."""
        listed: Any = [given] if isinstance(given, StreamHandle) and self.count == 1 else given
        self.layer.require(
            isinstance(listed, list | tuple) and len(listed) == self.count
            and all(isinstance(x, StreamHandle) for x in listed), ArgError,
            f"{role} must be a list of {self.count} streams, one on each chip, found "
            f"{shown(given)}",
        )  # fmt: skip
        return tuple(listed)

    def each(self, make: Callable[[int], Stream]) -> list[Stream]:
        """What ``make`` gives on the chip of each member."""
        made = []
        for i, number in enumerate(self.chips):
            with chip(number):
                made.append(make(i))
        return made

    def part(self, i: int) -> str:
        """The label of the layer of a member."""
        return self.layer.part(str(i))

    def summed(self, parts: Sequence[Stream]) -> list[Stream]:
        """The sum of the results of all members, on each of them."""
        return all_reduce(
            parts, algorithm=self.collective, chips=self.chips, compute_bw=self.layer.compute_bw,
            label=self.layer.part("sum"),
        )  # fmt: skip

    def check_summed(self, write_back: bool) -> None:
        """Refuse a result in on-chip memory where an all-reduce makes it."""
        self.layer.require(
            not self.layer.flag("write_back", write_back), ArgError,
            "write_back has no effect on a result that an all-reduce makes", "leave it out",
        )  # fmt: skip

    # tensors

    def rows(self, role: str, tensor: Tensor, rows: int | None = None) -> list[TensorSpec]:
        """As many rows of a matrix for each member, the first ones for the first."""
        return self._parts(role, self.layer.matrix(role, tensor, rows), 0, "rows")

    def columns(self, role: str, tensor: Tensor, rows: int | None = None) -> list[TensorSpec]:
        """As many columns of a matrix for each member."""
        return self._parts(role, self.layer.matrix(role, tensor, rows), 1, "columns")

    def of_heads(self, role: str, given: Any) -> Sequence[Any]:
        """Streams of the chips; or the heads of a tensor ``[heads, L, d]`` that each member has.

        With fewer heads than members, members that follow each other have the same one.
        """
        if isinstance(given, list | tuple | StreamHandle):
            return self.streams(role, given)
        tensor = as_spec(given)
        if len(tensor.shape) != 3:
            return self.copies(role, tensor)
        heads = tensor.shape[0]
        if self.count % heads:
            return self._parts(role, tensor, 0, "heads")
        each = self.count // heads
        return [slice_of(tensor, 0, i // each, 1, number) for i, number in enumerate(self.chips)]

    def copies(self, role: str, given: Any) -> Sequence[Any]:
        """Streams of the chips, or a tensor that each member has a copy of."""
        if isinstance(given, list | tuple | StreamHandle):
            return self.streams(role, given)
        tensor = as_spec(given)
        return [slice_of(tensor, 0, 0, tensor.shape[0], number) for number in self.chips]

    def _parts(self, role: str, given: TensorSpec, axis: int, what: str) -> list[TensorSpec]:
        whole = given.shape[axis]
        self.layer.require(
            whole % self.count == 0, ArgError,
            f"tp {self.count} does not divide the {whole} {what} of {role}",
        )  # fmt: skip
        each = whole // self.count
        return [
            slice_of(given, axis, i * each, each, number) for i, number in enumerate(self.chips)
        ]


def alone(name: str, x: Any, role: str = "x", **without_effect: object) -> Stream:
    """The stream of a call without ``tp``, which has no list of them nor what only ``tp`` needs."""
    if isinstance(x, list | tuple):
        raise ArgError(f"{name}: {role} is a list of streams; say how many chips with tp=")
    for argument, value in without_effect.items():
        if value is not None:
            raise ArgError(f"{name}: {argument} has no effect without tp; leave it out")
    only: Stream = x
    return only


def slice_of(given: TensorSpec, axis: int, first: int, count: int, number: int) -> TensorSpec:
    """The part of a tensor that a chip has."""
    shape = (*given.shape[:axis], count, *given.shape[axis + 1 :])
    data = given.data
    if data is not None:
        at = (slice(None),) * axis + (slice(first, first + count),)
        data = np.ascontiguousarray(data[at])
    name = None if given.name is None else name_on(given.name, number)
    return TensorSpec(shape, given.dtype, name, data)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
