"""The normal form of a stream type: equal forms are equal sequences of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepsim.itensor.affine import AffineMap


class Loop(NamedTuple):
    """A loop: its trip count, and its stride along every data dim, in cells."""

    trip: int
    stride: tuple[int, ...]

    @property
    def is_revisit(self) -> bool:
        """Whether it changes no offset, so that everything inside is sent again."""
        return not any(self.stride)

    @property
    def dim(self) -> int | None:
        """The data dim that it drives; None if it drives no dim or more than one."""
        driven = [i for i, stride in enumerate(self.stride) if stride]
        return driven[0] if len(driven) == 1 else None


class NormalForm(NamedTuple):
    """Element, first offset and loops, outermost first, none of which can be merged."""

    element: tuple[int, ...]
    constants: tuple[int, ...]
    loops: tuple[Loop, ...]

    @property
    def is_perfect(self) -> bool:
        """Whether the loops tile the tensor without gap or overlap, each forwards along one data
        dim.

        Per data dim the strides in increasing order are e, e*n, e*n*m, ... up to the shape, where
        e is the element and n, m, ... are the trip counts. Revisit loops do not matter.
        """
        if any(self.constants):
            return False
        reached = list(self.element)
        for loop in sorted(self.loops, key=lambda loop: max(loop.stride, default=0)):
            if loop.is_revisit:
                continue
            dim = loop.dim
            if dim is None or loop.stride[dim] != reached[dim]:
                return False
            reached[dim] *= loop.trip
        return True


def normal_form(
    element: Sequence[int], constants: Sequence[int], loops: Sequence[Loop]
) -> NormalForm:
    """Drop loops of one trip, and merge adjacent loops that are equivalent to one.

    Loops p and p+1 are merged if ``stride[p] == trip[p+1] * stride[p+1]`` as vectors; two revisit
    loops are merged as well. This is complete: two sequences of tokens are equal iff the forms are.
    """
    merged: list[Loop] = []
    for loop in loops:
        if loop.trip == 1:
            continue
        inner = loop
        while merged and merged[-1].stride == tuple(inner.trip * s for s in inner.stride):
            inner = Loop(merged.pop().trip * inner.trip, inner.stride)
        merged.append(inner)
    return NormalForm(tuple(element), tuple(constants), tuple(merged))


def written(form: NormalForm) -> tuple[tuple[int, ...], tuple[int, ...], AffineMap]:
    """Trip counts, steps and map for the loops: a loop that drives one dim has coefficient 1 or -1.

    A loop that drives several dims steps by 1 and has its strides as coefficients.
    """
    steps = []
    columns: list[list[int]] = []
    for loop in form.loops:
        sizes = {abs(stride) for stride in loop.stride if stride}
        step = sizes.pop() if len(sizes) == 1 else 1
        steps.append(step)
        columns.append([stride // step for stride in loop.stride])
    results = tuple(
        (tuple(column[i] for column in columns), const) for i, const in enumerate(form.constants)
    )
    return (
        tuple(loop.trip for loop in form.loops),
        tuple(steps),
        AffineMap(results, len(form.loops)),
    )
