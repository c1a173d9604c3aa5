"""The slot arena: rings, buffers and tuples are blocks of slots of power-of-two length.

``g.arena_top`` is a bump pointer; freed blocks wait in one list per length, linked through
``value``. Nothing here fails halfway: :func:`allocate` answers -1 when the arena is full, the unit
then answers ``NO_SPACE`` without having changed anything, the caller enlarges the array and the
unit runs again.

A buffer or tuple is a block whose first slot is a header (``rows`` elements, ``off`` references,
``level`` the order of the block); the elements follow.
"""

from __future__ import annotations

from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import INFINITY, Payload

__all__ = ["allocate", "copy_payload", "free_block", "grow_ring", "release", "retain"]

_BUFFER = int(Payload.BUFFER)
_TUPLE = int(Payload.TUPLE)


@kernel
def allocate(S, F, g, order):
    """A block of ``2**order`` slots; index of its first slot, or -1 when there is no room."""
    first = F[order]
    if first >= 0:
        F[order] = S[first].value
        return first
    length = 1 << order
    if g.arena_top + length > g.arena_end:
        g.arena_need = length
        return -1
    first = g.arena_top
    g.arena_top = first + length
    return first


@kernel
def free_block(S, F, first, order):
    """Give a block back."""
    S[first].value = F[order]
    F[order] = first


@kernel
def copy_payload(source, target):
    """Copy what a token carries; stamps and level stay the target's own."""
    target.value = source.value
    target.rows = source.rows
    target.cols = source.cols
    target.off = source.off
    target.bits = source.bits
    target.kind = source.kind
    target.rd = source.rd


@kernel
def retain(S, token):
    """One more token refers to the block of ``token``."""
    if token.kind == _BUFFER or token.kind == _TUPLE:
        S[token.value].off += 1


@kernel
def _is_dropped(S, g, first):
    # One reference less; whether it was the last one.
    header = S[first]
    header.off -= 1
    return header.off == 0 and g.history == 0


@kernel
def release(S, F, g, token):
    """One token less refers to the block of ``token``; a block nobody refers to is freed.

    Tuples whose elements are to be released wait in a chain through the ``stamp`` of their headers.
    """
    if token.kind == _BUFFER:
        if _is_dropped(S, g, token.value):
            free_block(S, F, token.value, S[token.value].level)
    elif token.kind == _TUPLE and _is_dropped(S, g, token.value):
        chain = token.value
        S[chain].stamp = -1
        while chain >= 0:
            first = chain
            chain = S[first].stamp
            for i in range(2):
                element = S[first + 1 + i]
                if element.kind == _BUFFER or element.kind == _TUPLE:
                    block = element.value
                    if _is_dropped(S, g, block):
                        if element.kind == _TUPLE:
                            S[block].stamp = chain
                            chain = block
                        else:
                            free_block(S, F, block, S[block].level)
            free_block(S, F, first, S[first].level)


@kernel
def grow_ring(S, F, g, ch):
    """Make room for one more token in the ring of ``ch``; False when the arena is full.

    A bounded ring holds the last ``cap`` tokens, because their release times are needed; an
    unbounded one only what is in flight; with ``ch.keep`` nothing is ever overwritten.
    """
    length = ch.mask + 1
    if ch.cap >= INFINITY and ch.keep == 0 and ch.sent - ch.removed < length:
        ch.grow_at = ch.removed + length
        return True
    order = 0
    while (1 << order) < length:
        order += 1
    fresh = allocate(S, F, g, order + 1)
    if fresh < 0:
        return False
    mask = 2 * length - 1
    k = ch.sent - length
    if k < 0:
        k = 0
    while k < ch.sent:
        source = S[ch.start + (k & ch.mask)]
        target = S[fresh + (k & mask)]
        copy_payload(source, target)
        target.stamp = source.stamp
        target.pub = source.pub
        target.rel = source.rel
        target.hrel = source.hrel
        target.level = source.level
        k += 1
    free_block(S, F, ch.start, order)
    ch.start = fresh
    ch.mask = mask
    if ch.cap >= INFINITY and ch.keep == 0:
        ch.grow_at = ch.removed + mask + 1
    elif mask + 1 >= ch.cap and ch.keep == 0:
        ch.grow_at = INFINITY
    else:
        ch.grow_at = mask + 1
    return True
