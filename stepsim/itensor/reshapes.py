"""The same tokens seen as a tensor of another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepsim.errors import ITensorError
from stepsim.itensor.affine import integers
from stepsim.itensor.itensor_type import ITensor
from stepsim.itensor.loop_text import by
from stepsim.itensor.normal_form import Loop, NormalForm, normal_form
from stepsim.typed import typed


@typed
def reassociate(it: ITensor, shape: Sequence[int]) -> ITensor:
    """The stream over a tensor of another shape with the same elements in row-major order.

    Data dims are split and merged as in a reshape: the new shape is cut into groups with as many
    elements as groups of the old one. A token keeps its elements and their order, and stays a box.

    Raises
    ------
    ITensorError
        The shapes differ in the number of elements, or a token or loop does not split or merge
        evenly; the tensor must then be sent through a converter for the entire tensor.
    """
    sizes = integers("shape", tuple(shape))
    if min(sizes, default=1) < 1 or math.prod(sizes) != it.cells:
        raise ITensorError(
            f"reassociate {it}: its tensor of {by(it.shape)} has {it.cells} elements, but "
            f"{by(sizes)} has {math.prod(sizes)}"
        )
    merged = it.normal_form()
    spans = _groups(it.shape, sizes)
    # From the last one, so that the numbers of earlier data dims do not change.
    for (first, last), _ in reversed(spans):
        merged = _merge(it, merged, it.shape, first, last)
    for number, (_, (first, last)) in reversed(list(enumerate(spans))):
        merged = _split(it, merged, number, sizes[first:last])
    return ITensor.of_normal_form(normal_form(*merged), it.dtype, it.depth)


def _groups(
    old: tuple[int, ...], new: tuple[int, ...]
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Minimal ranges of data dims with equally many elements: [(from, to) of old, (from, to) of
    new]."""
    spans = []
    i = j = 0
    while i < len(old) or j < len(new):
        start = (i, j)
        ours, i = (old[i], i + 1) if i < len(old) else (1, i)
        theirs, j = (new[j], j + 1) if j < len(new) else (1, j)
        while ours != theirs:
            if ours < theirs:
                ours, i = ours * old[i], i + 1
            else:
                theirs, j = theirs * new[j], j + 1
        spans.append(((start[0], i), (start[1], j)))
    return spans


def _merge(
    it: ITensor, form: NormalForm, shape: tuple[int, ...], first: int, last: int
) -> NormalForm:
    """The form with data dims first to last as one; an empty range becomes one of extent 1."""
    sizes = shape[first:last]
    element = form.element[first:last]
    weights = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    inner = next((k for k, size in enumerate(element) if size > 1), len(element))
    for k in range(inner + 1, len(sizes)):
        if element[k] != sizes[k]:
            raise ITensorError(
                f"reassociate {it}: a token has {element[k]} of {sizes[k]} elements of data dim "
                f"{first + k} and more than one of dim {first + inner}, so that its elements are "
                f"not next to each other in the merged dim; send rows of one element of dim "
                f"{first + inner}, or all of dim {first + k}"
            )

    def flat(values: tuple[int, ...]) -> tuple[int, ...]:
        one = sum(v * w for v, w in zip(values[first:last], weights, strict=True))
        return (*values[:first], one, *values[last:])

    return NormalForm(
        (*form.element[:first], math.prod(element), *form.element[last:]),
        flat(form.constants),
        tuple(Loop(loop.trip, flat(loop.stride)) for loop in form.loops),
    )


def _split(it: ITensor, form: NormalForm, dim: int, sizes: tuple[int, ...]) -> NormalForm:
    """The form with one data dim as several of the given extents; an empty list drops it."""
    if not sizes:
        return _without(form, dim)
    for size in (math.prod(sizes[k:]) for k in range(1, len(sizes))):
        form = _split_in_two(it, form, dim, size)
        dim += 1
    return form


def _split_in_two(it: ITensor, form: NormalForm, dim: int, inner: int) -> NormalForm:
    """Data dim ``dim`` becomes (extent / inner, inner)."""

    def uneven(what: str) -> ITensorError:
        return ITensorError(
            f"reassociate {it}: data dim {dim} splits into rows of {inner} elements, but {what}; "
            "tile it so that tokens and loops fall on the borders of rows"
        )

    element = form.element[dim]
    if element > inner and element % inner:
        raise uneven(f"a token has {element}")
    both = (element // inner, inner) if element > inner else (1, element)

    def put(values: tuple[int, ...], new: tuple[int, int]) -> tuple[int, ...]:
        return (*values[:dim], *new, *values[dim + 1 :])

    loops = []
    for loop in form.loops:
        stride = loop.stride[dim]
        if stride % inner == 0:
            loops.append(Loop(loop.trip, put(loop.stride, (stride // inner, 0))))
        elif (loop.trip - 1) * abs(stride) < inner:
            loops.append(Loop(loop.trip, put(loop.stride, (0, stride))))
        else:
            turns = inner // abs(stride)
            if inner % abs(stride) or loop.trip % turns:
                raise uneven(f"a loop takes {loop.trip} steps of {stride}")
            outer = put(tuple(turns * s for s in loop.stride), (1 if stride > 0 else -1, 0))
            loops.append(Loop(loop.trip // turns, outer))
            loops.append(Loop(turns, put(loop.stride, (0, stride))))
    constants = put(form.constants, divmod(form.constants[dim], inner))
    low = constants[dim + 1] + sum(min(0, n.stride[dim + 1]) * (n.trip - 1) for n in loops)
    high = constants[dim + 1] + sum(max(0, n.stride[dim + 1]) * (n.trip - 1) for n in loops)
    if low < 0 or high + both[1] > inner:
        raise uneven("a token lies across a border")
    return NormalForm(put(form.element, both), constants, tuple(loops))


def _without(form: NormalForm, dim: int) -> NormalForm:
    def drop(values: tuple[int, ...]) -> tuple[int, ...]:
        return (*values[:dim], *values[dim + 1 :])

    return NormalForm(
        drop(form.element),
        drop(form.constants),
        tuple(Loop(loop.trip, drop(loop.stride)) for loop in form.loops),
    )
