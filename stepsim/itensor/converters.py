"""The smallest ping-pong buffer that turns one order of tokens into another.

A converter is ``for shared loops { fill a chunk ; drain it }`` with two chunks, so that one is
filled while the other is drained. Loops that the two nests share from the outside in stay outside.
With only one chunk it takes half the memory, and filling waits for draining.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from stepsim.errors import ITensorError
from stepsim.itensor.itensor_type import ITensor
from stepsim.itensor.loop_text import by, converter_nest
from stepsim.itensor.matching import matches
from stepsim.itensor.normal_form import Loop
from stepsim.shown import shown
from stepsim.typed import typed

Repeats = Literal["reject", "anew"]
"""Meaning of a source that sends tokens again: an error, or a new value each time."""


@dataclass(frozen=True, repr=False)
class Converter:
    """The connection of a source to a target.

    Attributes
    ----------
    src, dst
        The streams, over one tensor.
    kind
        ``"fifo"``: the streams match and need no buffer. ``"prefix"``: the chunk inside the shared
        loops is a part of the tensor. ``"whole"``: it is the entire tensor.
    chunk
        Extent of the buffer along every data dim; for a FIFO, the element.
    shared_loops
        Loops around filling and draining, outermost first, with strides in cells of the tensor.
    fill, drain
        Inner loops in which the source's tokens arrive and the target's leave, with offsets
        relative to the chunk.
    buffers
        Number of chunks. 2: one is filled while the other is drained, and an iteration of the
        shared loops takes the longer of the two times. 1: it takes their sum.

    Raises
    ------
    ITensorError
        ``buffers`` is neither 1 nor 2.
    """

    src: ITensor
    dst: ITensor
    kind: Literal["fifo", "prefix", "whole"]
    chunk: tuple[int, ...]
    shared_loops: tuple[Loop, ...]
    fill: tuple[Loop, ...]
    drain: tuple[Loop, ...]
    buffers: Literal[1, 2] = 2

    def __post_init__(self) -> None:
        if not (isinstance(self.buffers, int) and self.buffers in (1, 2)):
            raise ITensorError(
                f"a converter from {self.src} to {self.dst} has 1 or 2 buffers, found "
                f"{shown(self.buffers)}; use 2 to fill one while the other is drained"
            )

    @property
    def cells(self) -> int:
        """Elements of a chunk, in one buffer; 0 for a FIFO."""
        return 0 if self.kind == "fifo" else math.prod(self.chunk)

    @property
    def bytes(self) -> int:
        """Bytes of all buffers."""
        return self.src.bytes_of(self.buffers * self.cells)

    @property
    def reuse(self) -> int:
        """Number of times a chunk is filled in one run."""
        return math.prod(loop.trip for loop in self.shared_loops)

    def __str__(self) -> str:
        if self.kind == "fifo":
            return "a FIFO, no converter"
        times = "once" if self.reuse == 1 else f"{self.reuse} times"
        return (
            f"chunk {by(self.chunk)} of {by(self.src.shape)}, filled {times}, "
            f"{self.buffers} x {self.cells} cells of {self.src.dtype} = {self.bytes} bytes"
        )

    def __repr__(self) -> str:
        return converter_nest(self)


@typed
def converter(src: ITensor, dst: ITensor, *, repeats: Repeats = "reject") -> Converter:
    """The converter with the smallest chunk of equal size for every iteration of the shared loops.

    If both streams tile the tensor perfectly (see :attr:`NormalForm.is_perfect`), the rule of
    shared loop prefixes gives the chunk; it is minimal among equal halves. Any other pair gets the
    entire tensor. No tokens are enumerated.

    Parameters
    ----------
    src, dst
        Two streams over one tensor.
    repeats
        Meaning of repeats in the source. ``"reject"``: they are an error, as it is unclear which
        one is the result. ``"anew"``: every repeat is a new value of the tensor, and the target
        reads each; the revisit loops must then be shared.

    Raises
    ------
    ITensorError
        Scalar types or shapes differ, the target reads cells that the source does not send, or the
        source sends tokens again and the repeats are not shared.

    Notes
    -----
    StreamTensor, Algorithm 1, scans data dims and does not find the paper's own example, the pair
    (b), (c) of Fig. 5; it is kept as :func:`stepsim.itensor.printed`.
    """
    if repeats not in get_args(Repeats):
        raise ITensorError(f"converter: repeats is {shown(repeats)}, expected 'reject' or 'anew'")
    require_one_tensor(src, dst)
    if matches(src, dst):
        return Converter(src, dst, "fifo", src.element, src.normal_form().loops, (), ())
    found = _shared(src, dst, revisits=repeats == "anew")
    passes = math.prod(loop.trip for loop in found.loops if loop.is_revisit)
    if src.distinct_offsets * passes < src.tokens:
        raise ITensorError(_sent_again(src, dst, repeats))
    if not src.cell_sets.has_all_of(dst.cell_sets):
        raise ITensorError(
            f"no converter from {src} to {dst}: the target reads elements that the source does not "
            "send; let the loops of the source reach all of the tensor"
        )
    chunk = found.chunk
    kind: Literal["prefix", "whole"] = "whole" if chunk == src.shape else "prefix"
    return Converter(
        src,
        dst,
        kind,
        chunk,
        tuple(found.loops),
        found.inside(found.fill),
        found.inside(found.drain),
    )


@typed
def loop_prefix(src: ITensor, dst: ITensor) -> tuple[int, ...] | None:
    """The chunk by the rule of shared loop prefixes; None if it does not apply.

    It applies if both streams tile the tensor perfectly. It is also defined for streams that match.

    Raises
    ------
    ITensorError
        Scalar types or shapes differ.
    """
    require_one_tensor(src, dst)
    if not (src.normal_form().is_perfect and dst.normal_form().is_perfect):
        return None
    return _shared(src, dst, revisits=True).chunk


class _Shared:
    """Loops that two nests share from the outside in, and the rest of both nests."""

    def __init__(self, src: ITensor, dst: ITensor) -> None:
        self.loops: list[Loop] = []
        self.fill = list(src.normal_form().loops)
        self.drain = list(dst.normal_form().loops)
        self._shape = src.shape

    def share(self, outer: Loop) -> None:
        """Move iterations of the first loops of both nests outside; the rest stays inside."""
        self.loops.append(outer)
        for nest in (self.fill, self.drain):
            left = nest[0].trip // outer.trip
            nest[:1] = [Loop(left, nest[0].stride)] if left > 1 else []

    @property
    def chunk(self) -> tuple[int, ...]:
        """Extent handled by one iteration of the shared loops."""
        return tuple(
            extent // math.prod(loop.trip for loop in self.loops if loop.stride[i])
            for i, extent in enumerate(self._shape)
        )

    def inside(self, nest: list[Loop]) -> tuple[Loop, ...]:
        """The remaining loops of a nest, with offsets in the chunk.

        If a shared loop has smaller strides than a remaining one, the chunk has the cells without
        the gaps between them.
        """
        return tuple(
            Loop(
                loop.trip,
                tuple(
                    stride
                    // math.prod(out.trip for out in self.loops if 0 < out.stride[i] < stride)
                    for i, stride in enumerate(loop.stride)
                ),
            )
            for loop in nest
        )


def _shared(src: ITensor, dst: ITensor, *, revisits: bool) -> _Shared:
    found = _Shared(src, dst)
    perfect = src.normal_form().is_perfect and dst.normal_form().is_perfect
    while found.fill and found.drain:
        ours, theirs = found.fill[0], found.drain[0]
        if ours.is_revisit and theirs.is_revisit:
            # A target may read each new value several times: its loop is split.
            outer = ours
            if not revisits or theirs.trip % ours.trip:
                break
        elif perfect and ours.dim is not None and ours.dim == theirs.dim:
            # The same extent in different pieces: the common borders are shared.
            extent = ours.trip * ours.stride[ours.dim]
            piece = math.lcm(ours.stride[ours.dim], theirs.stride[ours.dim])
            if theirs.trip * theirs.stride[ours.dim] != extent or piece == extent:
                break
            outer = Loop(
                extent // piece, tuple(piece if i == ours.dim else 0 for i in range(src.rank))
            )
        else:
            break
        found.share(outer)
        if ours != theirs:
            break
    return found


def require_one_tensor(src: ITensor, dst: ITensor) -> None:
    """Raise an ITensorError unless both streams carry one scalar type and one shape."""
    for what, ours, theirs, how in (
        ("scalar type", src.dtype, dst.dtype, "compute the other type in a kernel"),
        ("shape", src.shape, dst.shape, "view one of them by reassociate first"),
    ):
        if ours != theirs:
            raise ITensorError(
                f"{src} and {dst} are not one tensor: {what} {ours} and {theirs}; {how}"
            )


def _sent_again(src: ITensor, dst: ITensor, repeats: Repeats) -> str:
    text = (
        f"no converter from {src} to {dst}: the source sends {src.tokens} tokens, but only "
        f"{src.distinct_offsets} different ones. "
    )
    if repeats == "reject":
        return text + (
            "If these are partial results, accumulate them in the kernel and send the last pass; "
            "if every repeat is a new tensor, give repeats='anew'"
        )
    return text + (
        "Where every repeat is a new tensor, the target has to read it in loops that it shares "
        "with the source; move the revisit loops of both outermost"
    )
