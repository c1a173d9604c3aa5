"""The rings of the FIFOs of an image: their places at the end of the slots, and their depths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import INFINITY, set_looks
from stepsim.lowering.image import Image

_FIRST_RING: Final = 16
"""Rings start with at most this many slots and grow with what is sent."""


def lay_rings(channels: NDArray[np.void], depths: Sequence[int | None], first: int) -> int:
    """Write the rings of FIFOs of these depths to their records; returns the end of the last ring.

    ``first`` is the slot in which the first ring begins. None is an unbounded FIFO.
    """
    # A program has FIFOs of only a few different depths.
    rings = {depth: _ring(depth) for depth in set(depths)}
    sizes = np.array([rings[depth] for depth in depths], np.int64)
    ends = first + np.cumsum(sizes)
    channels["start"] = ends - sizes
    channels["mask"] = sizes - 1
    channels["cap"] = [INFINITY if depth is None else depth for depth in depths]
    channels["grow_at"] = np.where(sizes >= channels["cap"], INFINITY, sizes)
    set_looks(channels)
    return int(ends[-1]) if len(depths) else first


def depths_of(image: Image) -> list[int | None]:
    """Tokens that every FIFO of an image holds; None where it is unbounded."""
    return [None if cap >= INFINITY else cap for cap in image.channels["cap"].tolist()]


def with_rings(image: Image, depths: Mapping[int, int | None]) -> Image:
    """The image with other depths of some FIFOs, by number; None is unbounded.

    It equals, byte for byte, the image of a network with these depths: rings come last among the
    slots, and nothing else depends on them.
    """
    every = depths_of(image)
    for fifo, depth in depths.items():
        every[fifo] = depth
    channels = image.channels.copy()
    first = int(channels["start"][0]) if len(channels) else len(image.slots)
    end = lay_rings(channels, every, first)
    slots = np.zeros(end, image.slots.dtype)
    slots[:first] = image.slots[:first]
    shared = np.frombuffer(bytearray(image.globals.tobytes()), image.globals.dtype)
    shared["arena_top"] = end
    return replace(image, channels=channels, slots=slots, globals=shared)


def _ring(depth: int | None) -> int:
    """Slots that the ring of a FIFO of this depth starts with."""
    ring = 1
    while ring < (_FIRST_RING if depth is None else min(depth, _FIRST_RING)):
        ring *= 2
    return ring
