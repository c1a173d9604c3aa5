"""A stream type as the loop nest that it describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepsim.itensor.normal_form import Loop

if TYPE_CHECKING:
    from stepsim.itensor.converters import Converter
    from stepsim.itensor.itensor_type import ITensor


def by(shape: Sequence[int]) -> str:
    """A shape in the form ``8x2``."""
    return "x".join(str(size) for size in shape)


def loop_nest(it: ITensor) -> str:
    """The type in one line, then its loops and the slice that every iteration sends."""
    names = [f"d{p}" for p in range(it.map.num_dims)]
    tensor = by(it.shape) or "scalar"
    plural = "token" if it.tokens == 1 else "tokens"
    lines = [f"{it}  # {tensor}, {it.tokens} {plural} of {it.token_bits} bits"]
    for p, name in enumerate(names):
        again = "  # revisit: all inside is sent again" if p in it.revisit_loops else ""
        values = _values(it.trips[p], it.steps[p])
        lines.append(f"{'  ' * p}for {name} in {values}:{again}")
    slices = []
    for offset, size in zip(it.map.offset_texts(names), it.element, strict=True):
        if size == 1:
            slices.append(offset)
        elif offset == "0":
            slices.append(f"0:{size}")
        else:
            slices.append(f"{offset} : +{size}")
    lines.append(f"{'  ' * len(names)}send [{', '.join(slices)}]")
    return "\n".join(lines)


def converter_nest(found: Converter) -> str:
    """The converter in one line, then its shared loops and the nests that fill and drain."""
    lines = [str(found)]
    if found.kind == "fifo":
        return lines[0]
    for p, loop in enumerate(found.shared_loops):
        place = "a new tensor" if loop.is_revisit else f"at {_place('c', p, loop)}"
        lines.append(f"{'  ' * p}for c{p} in {_values(loop.trip, 1)}:  # {place}")
    margin = "  " * len(found.shared_loops)
    for name, letter, it, loops in (
        ("fill", "f", found.src, found.fill),
        ("drain", "d", found.dst, found.drain),
    ):
        lines.append(f"{margin}{name}:")
        for p, loop in enumerate(loops):
            place = "again" if loop.is_revisit else f"at {_place(letter, p, loop)}"
            lines.append(
                f"{margin}{'  ' * (p + 1)}for {letter}{p} in {_values(loop.trip, 1)}:  # {place}"
            )
        element = by(it.element) or "scalar"
        lines.append(f"{margin}{'  ' * (len(loops) + 1)}{element}")
    return "\n".join(lines)


def _place(letter: str, number: int, loop: Loop) -> str:
    offsets = []
    for stride in loop.stride:
        times = "" if stride == 1 else "-" if stride == -1 else f"{stride}*"
        offsets.append(f"{times}{letter}{number}" if stride else "0")
    return f"({', '.join(offsets)})"


def _values(trip: int, step: int) -> str:
    values = [str(i * step) for i in range(min(trip, 3))]
    if trip > 4:
        values.append("..")
    if trip > 3:
        values.append(str((trip - 1) * step))
    return ", ".join(values)
