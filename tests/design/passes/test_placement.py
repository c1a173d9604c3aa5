"""Places of a design on a device: kinds of memory for all that it holds, dies for its kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepsim.design import (
    buffers_of,
    fuse_kernels,
    place_in_memory,
    place_on_dies,
    programs_of,
    vectorize_fifos,
)
from stepsim.errors import CompileError
from stepsim.machine import load_machine
from tests.design.passes.test_dataflow import UNLIMITED, kernels


def test_places_on_a_device() -> None:
    device = load_machine("u55c").device
    made = fuse_kernels(kernels(), 4000)
    placed, allocations = place_in_memory(made, device)
    assert len(allocations) == len(made.groups)
    for group, allocation in zip(made.groups, allocations, strict=True):
        assert set(allocation.kinds) == {b.name for b in buffers_of(made, group[0].group)}
    assert {edge.memory for edge in placed.inner_edges} <= {"lutram", "bram", "uram"}
    assert {edge.memory for edge in placed.edges if not placed.on_chip(edge)} == {None}
    spread = place_on_dies(made, device)
    assert {kernel.die for kernel in spread.kernels} <= {0, 1, 2}
    for group in spread.groups:
        lanes = [0] * device.dies
        for kernel in group:
            assert kernel.die is not None
            lanes[kernel.die] += kernel.unroll
        assert max(lanes) <= sum(lanes) / device.dies + max(k.unroll for k in group)


def test_every_sized_fifo_is_placed() -> None:
    """Those before converters too; as deep as the program has them."""
    made = vectorize_fifos(fuse_kernels(kernels(), UNLIMITED), slack=1)
    made = made.replaced(edges=tuple(replace(e, depth=5, depth_before=3) for e in made.edges))
    (group,) = programs_of(made)
    placed = {b.name: b.depth for b in buffers_of(made, group.group) if b.name[:5] == "fifo "}
    sized = {
        f"fifo {name}": stream.depth
        for name, stream in group.streams.items()
        if not name.startswith("load ")  # They hold all tokens until they are sized.
    }
    assert sum(name.endswith("/before") for name in sized) > 5
    assert placed == sized


def test_buffers_hold_what_converters_and_loads_hold() -> None:
    """Both halves of them, in whole words."""
    made = fuse_kernels(kernels(), UNLIMITED)
    bits = {b.name: (b.bits, b.width) for b in buffers_of(made, 0)}
    converters = {f"converter {e.name}": e.bytes for e in made.inner_edges if not e.matched}
    placed = {name: size for name, size in converters.items() if name in bits}
    assert sum(placed.values()) == made.converter_bytes > 0
    for name, size in (*placed.items(), *((dma.name, dma.bytes) for dma in made.dmas)):
        held, word = bits[name]
        assert 0 <= held - 8 * size < word, name


def test_a_die_has_its_share_of_the_memory() -> None:
    device = load_machine("u55c").device
    made = fuse_kernels(kernels(), UNLIMITED)
    bits = sum(buffer.bits for buffer in buffers_of(made, 0))
    blocks = -(-bits // (4096 * 72))
    none = {"lutram_blocks": 0, "bram_blocks": 0}
    tight = place_on_dies(made, replace(device, uram_blocks=2 * blocks, **none))
    assert len({kernel.die for kernel in tight.kernels}) > 1
    with pytest.raises(CompileError, match="of memory_bits in all"):
        place_on_dies(made, replace(device, uram_blocks=blocks // 4, **none))
