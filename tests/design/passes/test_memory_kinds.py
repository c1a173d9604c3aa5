"""Memory kinds of buffers on the U55C, against the best packing."""

from __future__ import annotations

from random import Random

import pytest

from stepsim.design.passes.memory.memory_kinds import (
    Allocation,
    Buffer,
    MemoryKind,
    allocate,
    blocks_needed,
    kinds_of,
    pack,
)
from stepsim.errors import CompileError
from stepsim.machine import load_machine

BRAM = MemoryKind(4, ((512, 36), (1024, 18)))


def u55c() -> dict[str, MemoryKind]:
    device = load_machine("u55c").device
    assert device is not None
    return kinds_of(device)


def drawn(random: Random) -> list[Buffer]:
    """Buffers of all sizes that fill a part of the device, up to most of it."""
    buffers: list[Buffer] = []
    least = random.choice((1, 4, 8))
    room = random.uniform(0.3, 0.85) * 390e6
    while room > 0 and len(buffers) < 200:
        width = random.choice((8, 32, 64, 72, 256, 512))
        depth = int(2 ** random.uniform(least, least // 2 + 12))
        buffers.append(Buffer(f"b{len(buffers)}", width, depth))
        room -= buffers[-1].bits
    return buffers


@pytest.mark.slow
def test_random_buffers_never_exceed_the_device_and_are_near_the_best_packing() -> None:
    kinds = u55c()
    random = Random(0)
    spilled = 0
    for _ in range(40):
        buffers = drawn(random)
        found, best = allocate(buffers, kinds), pack(buffers, kinds)
        for each in (found, best):
            check(each, buffers, kinds)
        assert best.share <= found.share * (1 + 1e-9)
        assert found.share <= 1.05 * best.share
        alone = sum(
            min(blocks_needed(b, kind) / kind.blocks for kind in kinds.values()) for b in buffers
        )
        spilled += best.share > alone * (1 + 1e-9)
    # Of some, not every buffer can have the kind that it would take least of.
    assert spilled > 5


def check(found: Allocation, buffers: list[Buffer], kinds: dict[str, MemoryKind]) -> None:
    assert set(found.kinds) == {buffer.name for buffer in buffers}
    for name, kind in kinds.items():
        used = sum(blocks_needed(b, kind) for b in buffers if found.kinds[b.name] == name)
        assert used == found.used[name] <= kind.blocks


def test_buffers_change_places_where_the_biggest_first_is_not_the_best() -> None:
    kinds = {"short": MemoryKind(4, ((512, 36),)), "deep": MemoryKind(3, ((1024, 18),))}
    sides = ((18, 512), (72, 512), (36, 1024), (36, 512))
    buffers = [Buffer(f"b{i}", *side) for i, side in enumerate(sides)]
    found = allocate(buffers, kinds)
    check(found, buffers, kinds)
    assert found.share == pytest.approx(pack(buffers, kinds).share) == pytest.approx(5 / 3)


def test_a_block_has_the_shape_that_fits_best() -> None:
    assert blocks_needed(Buffer("deep", 18, 1024), BRAM) == 1
    assert blocks_needed(Buffer("wide", 36, 512), BRAM) == 1
    assert blocks_needed(Buffer("both", 37, 513), BRAM) == 3


def test_what_does_not_fit_is_named() -> None:
    buffers = [Buffer("small", 8, 16), Buffer("large", 36, 512 * 5)]
    message = "buffer 'large' of 2560 words of 36 bits .* needs 5 blocks of bram with 4 left"
    with pytest.raises(CompileError, match=message):
        allocate(buffers, {"bram": BRAM})
    with pytest.raises(CompileError, match="2 buffers of 92288 bits do not fit: 4 blocks of bram"):
        pack(buffers, {"bram": BRAM})
    with pytest.raises(CompileError, match="two buffers are named 'small'"):
        allocate([buffers[0], buffers[0]], {"bram": BRAM})
    with pytest.raises(CompileError, match="states no memory"):
        pack(buffers, {})
    assert pack([], {"bram": BRAM}).share == allocate([], {"bram": BRAM}).share == 0
