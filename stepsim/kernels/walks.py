"""Walks over a grid of tiles: which level an element has and where it lies.

A walk is a list of dims, outermost first, among the parameters of the image; an affine one is
followed by as many strides.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined


@inlined
def walk_level(state, index, dims, ndims):
    """Number of trailing dims that end with element ``index``, row-major."""
    span = 1
    level = 0
    k = ndims - 1
    while k >= 0:
        span *= state.parameters[dims + k]
        if (index + 1) % span != 0:
            break
        level += 1
        k -= 1
    return level


@inlined
def walk_place(state, index, dims, ndims):
    """The sum of position times stride over the dims of element ``index``."""
    place = 0
    rest = index
    k = ndims - 1
    while k >= 0:
        dim = state.parameters[dims + k]
        place += (rest % dim) * state.parameters[dims + ndims + k]
        rest //= dim
        k -= 1
    return place
