"""The cells of a tensor that a stream sends, without enumerating all its tokens.

Data dims that share no loop are independent of each other: the set of offsets is the product of one
set per group of such dims, so that only the groups are enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stepsim.itensor.normal_form import Loop, NormalForm


class CellSets:
    """The cells that the tokens of a normal form cover in a tensor of the given shape."""

    def __init__(self, form: NormalForm, shape: Sequence[int]) -> None:
        self._form = form
        self._shape = tuple(shape)

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        groups = [{i} for i in range(len(self._shape))]
        for loop in self._form.loops:
            driven = {i for i, stride in enumerate(loop.stride) if stride}
            touched = [group for group in groups if group & driven]
            if len(touched) > 1:
                groups = [group for group in groups if not group & driven]
                groups.append(set().union(*touched))
        return tuple(
            _Group(self._form, self._shape, sorted(group)) for group in sorted(groups, key=min)
        )

    @cached_property
    def distinct_offsets(self) -> int:
        """Number of different tokens."""
        if self._form.is_perfect:
            return math.prod(loop.trip for loop in self._form.loops if not loop.is_revisit)
        return math.prod(len(group.offsets) for group in self._groups)

    @cached_property
    def covers_all_cells(self) -> bool:
        """Whether every cell is in a token."""
        return self._form.is_perfect or all(group.counts.all() for group in self._groups)

    @cached_property
    def tiles_overlap(self) -> bool:
        """Whether two different tokens share a cell."""
        return not self._form.is_perfect and any((g.counts > 1).any() for g in self._groups)

    def has_all_of(self, other: CellSets) -> bool:
        """Whether every cell that the other stream sends is sent here; both have the same shape."""
        return self.covers_all_cells or not bool((other._mask & ~self._mask).any())

    @cached_property
    def _mask(self) -> npt.NDArray[np.bool_]:
        mask = np.ones((1,) * len(self._shape), dtype=np.bool_)
        for group in self._groups:
            mask = mask & group.spread
        return np.broadcast_to(mask, self._shape)


class _Group:
    """Data dims that move together, and the loops that drive them."""

    def __init__(self, form: NormalForm, shape: Sequence[int], dims: Sequence[int]) -> None:
        self._shape = tuple(shape)
        self._dims = tuple(dims)
        self._element = tuple(form.element[i] for i in dims)
        self._constants = tuple(form.constants[i] for i in dims)
        self._loops = tuple(
            Loop(loop.trip, tuple(loop.stride[i] for i in dims))
            for loop in form.loops
            if any(loop.stride[i] for i in dims)
        )

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The distinct offsets, [offsets, dims]."""
        found = np.array([self._constants], dtype=np.int64)
        for loop in self._loops:
            moves = np.arange(loop.trip, dtype=np.int64)[:, None] * np.array(
                loop.stride, dtype=np.int64
            )
            found = (found[:, None, :] + moves[None, :, :]).reshape(-1, len(self._dims))
        return np.unique(found, axis=0)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """For every cell of these dims, the number of distinct tokens that contain it."""
        sizes = tuple(self._shape[i] for i in self._dims)
        counts = np.zeros(sizes, dtype=np.int64)
        offsets = tuple(self.offsets.T)
        for inside in np.ndindex(self._element):
            # Distinct offsets move a cell of the token to distinct places: no index occurs twice.
            counts[tuple(o + i for o, i in zip(offsets, inside, strict=True))] += 1
        return counts

    @property
    def spread(self) -> npt.NDArray[np.bool_]:
        """The cells that are sent, with size 1 in dims of other groups."""
        sizes = [self._shape[i] if i in self._dims else 1 for i in range(len(self._shape))]
        found: npt.NDArray[np.bool_] = (self.counts > 0).reshape(sizes)
        return found
