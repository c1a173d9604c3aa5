"""Assignment of buffers to kinds of on-chip memory: LUTRAM, BRAM or URAM.

A buffer of ``width`` bits and ``depth`` words takes whole blocks of one kind. The cost of a choice
is the share of the device's blocks of that kind, so that a scarce kind is dear. Source:
StreamTensor, on the resource space, which gives the order (the biggest buffers first) and no more;
``pack`` finds the least total share by an integer program, for comparison and for what does not fit
so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.deferred import deferred
from stepsim.errors import CompileError

if TYPE_CHECKING:
    from stepsim.machine import Device

optimize: Any = deferred("scipy.optimize")


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """On-chip memory of one kind.

    Attributes
    ----------
    blocks : that there are.
    shapes : words and bits of a word, of which a block has one at a time.
    """

    blocks: int
    shapes: tuple[tuple[int, int], ...]


_SHAPES = {
    "lutram": ((64, 1),),
    "bram": ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1)),
    "uram": ((4096, 72),),
}
"""Shapes of simple dual-port memories of AMD UltraScale+ (UG573, UG574)."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A memory that a design needs.

    Attributes
    ----------
    width : bits that are read or written at once.
    depth : words of this width.
    """

    name: str
    width: int
    depth: int

    @property
    def bits(self) -> int:
        """Bits that it holds."""
        return self.width * self.depth


@dataclass(frozen=True)
class Allocation:
    """The kind of every buffer.

    Attributes
    ----------
    kinds : name of the kind, by buffer.
    used : blocks of every kind.
    share : of the device's blocks, added up over the kinds.
    """

    kinds: Mapping[str, str]
    used: Mapping[str, int]
    share: float


def kinds_of(device: Device) -> dict[str, MemoryKind]:
    """The kinds that a device has."""
    blocks = {
        "lutram": device.lutram_blocks,
        "bram": device.bram_blocks,
        "uram": device.uram_blocks,
    }
    return {name: MemoryKind(count, _SHAPES[name]) for name, count in blocks.items() if count}


def blocks_needed(buffer: Buffer, kind: MemoryKind) -> int:
    """Blocks that a buffer takes, in the best shape: side by side for its width, and as deep."""
    return min(-(-buffer.width // bits) * -(-buffer.depth // words) for words, bits in kind.shapes)


def allocate(buffers: Sequence[Buffer], kinds: Mapping[str, MemoryKind]) -> Allocation:
    """Place the biggest buffers first, each in the kind of which it takes the smallest share.

    Also the other way round: each where it takes the least, and from kinds that are too full those
    go elsewhere that cost the least for a block. In both cases single buffers move, and pairs
    change places, as long as the total share falls; the better one is given.

    Raises
    ------
    CompileError
        A buffer fits nowhere once bigger ones are placed, either way; names it and what is left.
    """
    table = _Table(buffers, kinds)
    starts = []
    spilled = table.spilled()
    if spilled is not None:
        starts.append(spilled)
    try:
        starts.append(table.biggest_first())
    except CompileError:
        if not starts:
            raise
    for chosen in starts:
        table.improve(chosen)
    return min(map(table.allocation, starts), key=lambda allocation: allocation.share)


class _Table:
    """What buffers take of every kind.

    Attributes
    ----------
    need : blocks, by buffer and kind.
    share : of the device's blocks of a kind, by buffer and kind.
    """

    def __init__(self, buffers: Sequence[Buffer], kinds: Mapping[str, MemoryKind]) -> None:
        names = [buffer.name for buffer in buffers]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise CompileError(f"two buffers are named '{twice}'; names of buffers must differ")
        if not kinds:
            raise CompileError(
                "the device states no memory; give its blocks, as device.bram_blocks"
            )
        self.buffers, self.kinds = buffers, kinds
        self.need = [{n: blocks_needed(buffer, k) for n, k in kinds.items()} for buffer in buffers]
        self.share = [{n: need / kinds[n].blocks for n, need in row.items()} for row in self.need]

    def biggest_first(self) -> dict[int, str]:
        buffers, need, share = self.buffers, self.need, self.share
        chosen: dict[int, str] = {}
        room = self.room(chosen)
        for i in sorted(range(len(buffers)), key=lambda i: (-buffers[i].bits, i)):
            fits = [name for name in self.kinds if need[i][name] <= room[name]]
            if not fits:
                raise CompileError(_no_room(buffers[i], need[i], room))
            chosen[i] = min(fits, key=lambda name: share[i][name])
            room[chosen[i]] -= need[i][chosen[i]]
        return chosen

    def spilled(self) -> dict[int, str] | None:
        """Each buffer where it takes least, then out of kinds that are too full; None if stuck."""
        kinds, need, share = self.kinds, self.need, self.share
        chosen = {i: min(kinds, key=lambda name: row[name]) for i, row in enumerate(share)}
        room = self.room(chosen)
        while min(room.values()) < 0:
            full = min(room, key=lambda name: room[name])
            moves = [
                ((share[i][other] - share[i][full]) / min(need[i][full], -room[full]), i, other)
                for i, name in chosen.items()
                if name == full
                for other in kinds
                if need[i][other] <= room[other]
            ]
            if not moves:
                return None
            _, i, other = min(moves)
            room[full] += need[i][full]
            room[other] -= need[i][other]
            chosen[i] = other
        return chosen

    def room(self, chosen: Mapping[int, str]) -> dict[str, int]:
        """Remaining blocks of every kind; negative where too many are taken."""
        room = {name: kind.blocks for name, kind in self.kinds.items()}
        for i, name in chosen.items():
            room[name] -= self.need[i][name]
        return room

    def improve(self, chosen: dict[int, str]) -> None:
        """Move buffers to kinds where they take less, if need be after another has made room."""
        need, share = self.need, self.share
        room = self.room(chosen)

        def place(i: int, name: str) -> None:
            room[chosen[i]] += need[i][chosen[i]]
            room[name] -= need[i][name]
            chosen[i] = name

        def gain(i: int, name: str) -> float:
            return share[i][chosen[i]] - share[i][name]

        moving = True
        while moving:
            moving = False
            for i in chosen:
                for name in room:
                    if gain(i, name) <= 1e-12:
                        continue
                    old = chosen[i]
                    if need[i][name] <= room[name]:
                        place(i, name)
                        moving = True
                        continue
                    short = need[i][name] - room[name]
                    partners = [
                        (gain(j, other) + gain(i, name), j, other)
                        for j in chosen
                        if j != i and chosen[j] == name and need[j][name] >= short
                        for other in room
                        if other != name
                        and need[j][other] <= room[other] + (need[i][old] if other == old else 0)
                    ]
                    best = max(partners, default=(0.0, -1, ""))
                    if best[0] > 1e-12:
                        place(best[1], best[2])
                        place(i, name)
                        moving = True

    def allocation(self, chosen: Mapping[int, str]) -> Allocation:
        used = dict.fromkeys(self.kinds, 0)
        for i, name in chosen.items():
            used[name] += self.need[i][name]
        return Allocation(
            {buffer.name: chosen[i] for i, buffer in enumerate(self.buffers)},
            used,
            sum(count / self.kinds[name].blocks for name, count in used.items()),
        )


def pack(buffers: Sequence[Buffer], kinds: Mapping[str, MemoryKind]) -> Allocation:
    """The least total share, by an integer program.

    Raises
    ------
    CompileError
        No choice fits the device.
    """
    if not buffers:
        return Allocation({}, dict.fromkeys(kinds, 0), 0.0)
    table = _Table(buffers, kinds)
    names = list(kinds)
    need = np.array([[row[name] for name in names] for row in table.need], float)
    room = np.array([kinds[name].blocks for name in names], float)
    one = np.kron(np.eye(len(buffers)), np.ones(len(names)))
    used = np.hstack([np.diag(row) for row in need])
    found = optimize.milp(
        (need / room).ravel(),
        constraints=[
            optimize.LinearConstraint(one, 1, 1),
            optimize.LinearConstraint(used, -np.inf, room),
        ],
        integrality=np.ones(need.size),
        bounds=optimize.Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        raise CompileError(
            f"{len(buffers)} buffers of {sum(b.bits for b in buffers)} bits do not fit: "
            + ", ".join(f"{kinds[name].blocks} blocks of {name}" for name in names)
            + "; use smaller tiles or a smaller fusion budget"
        )
    picks = found.x.reshape(need.shape).argmax(axis=1)
    return table.allocation({i: names[k] for i, k in enumerate(picks.tolist())})


def _no_room(buffer: Buffer, need: Mapping[str, int], room: Mapping[str, int]) -> str:
    left = ", ".join(f"{need[name]} blocks of {name} with {room[name]} left" for name in need)
    return (
        f"buffer '{buffer.name}' of {buffer.depth} words of {buffer.width} bits does not fit: it "
        f"needs {left}; use smaller tiles, whose words are narrower, or a smaller fusion "
        "budget"
    )
