"""The slot arena: rings, buffers and tuples are blocks of slots of power-of-two length.

``arena_top`` is a bump pointer; freed blocks wait in one list per length, linked through
``value``. Nothing here fails halfway: :func:`allocate` returns -1 when the arena is full, the unit
then returns ``NO_SPACE`` without having changed anything, the caller enlarges the array and the
unit runs again.

A buffer or tuple is a block whose first slot is a header (``rows`` elements, ``off`` references,
``level`` the order of the block); the elements follow. The header of a tuple also has what moving
it costs: ``pub`` its bytes, ``rel`` the cycles to load the members as they lie, ``hrel`` those if
all of them lie on chip.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import cold, inlined, kernel
from stepsim.kernels.layout import INFINITY, Parks, Payload
from stepsim.kernels.recording.flag import is_recording
from stepsim.kernels.recording.journal import keep_room


@kernel
def allocate(state, order):
    """A block of ``2**order`` slots; index of its first slot, or -1 when there is no room."""
    shared = state.globals[0]
    first = state.free_lists[order]
    if first >= 0:
        state.free_lists[order] = state.slots[first].value
        return first
    length = 1 << order
    if shared.arena_top + length > shared.arena_end:
        shared.arena_need = length
        return -1
    first = shared.arena_top
    shared.arena_top = first + length
    return first


@kernel
def free_block(state, first, order):
    """Give a block back."""
    state.slots[first].value = state.free_lists[order]
    state.free_lists[order] = first


@inlined
def copy_payload(source, target):
    """Copy what a token carries; stamps and level stay the target's own."""
    target.value = source.value
    target.rows = source.rows
    target.cols = source.cols
    target.off = source.off
    target.bits = source.bits
    target.kind = source.kind
    target.rd = source.rd


@inlined
def retain(state, token):
    """One more token refers to the block of ``token``."""
    if token.kind == Payload.BUFFER or token.kind == Payload.TUPLE:
        state.slots[token.value].off += 1


@inlined
def _is_dropped(state, first):
    # One reference less; whether it was the last one.
    shared = state.globals[0]
    header = state.slots[first]
    header.off -= 1
    return header.off == 0 and shared.history == 0


@inlined
def release(state, token):
    """One token less refers to the block of ``token``; a block nobody refers to is freed."""
    if token.kind == Payload.BUFFER or token.kind == Payload.TUPLE:
        _drop(state, token)


@cold
def _drop(state, token):
    """What :func:`release` does with a token that has a block.

    Tuples whose elements are to be released wait in a chain through the ``stamp`` of their headers.
    """
    if token.kind == Payload.BUFFER:
        if _is_dropped(state, token.value):
            free_block(state, token.value, state.slots[token.value].level)
    elif token.kind == Payload.TUPLE and _is_dropped(state, token.value):
        chain = token.value
        state.slots[chain].stamp = -1
        while chain >= 0:
            first = chain
            chain = state.slots[first].stamp
            for i in range(state.slots[first].rows):
                element = state.slots[first + 1 + i]
                if element.kind == Payload.BUFFER or element.kind == Payload.TUPLE:
                    block = element.value
                    if _is_dropped(state, block):
                        if element.kind == Payload.TUPLE:
                            state.slots[block].stamp = chain
                            chain = block
                        else:
                            free_block(state, block, state.slots[block].level)
            free_block(state, first, state.slots[first].level)


@cold
def grow_ring(state, ch):
    """Make room for one more token in the ring of ``ch``; False when the arena is full."""
    if not _grow(state, ch):
        return False
    ch.look_at = ch.grow_at
    if ch.parks != Parks.NEVER and ch.cap < ch.grow_at:
        ch.look_at = ch.cap
    return True


@inlined
def _grow(state, ch):
    """As :func:`grow_ring`, for ``grow_at``.

    A bounded ring holds the last ``cap`` tokens, because their release times are needed; an
    unbounded one only what is in flight; with ``ch.keep`` nothing is ever overwritten.
    """
    length = ch.mask + 1
    if is_recording(state):
        if length >= ch.cap and ch.keep == 0:
            ch.grow_at = ch.sent + length  # of a unit that feeds itself, see below
            return True
    if ch.cap >= INFINITY and ch.keep == 0 and ch.sent - ch.removed < length:
        ch.grow_at = ch.removed + length
        return True
    order = 0
    while (1 << order) < length:
        order += 1
    fresh = allocate(state, order + 1)
    if fresh < 0:
        return False
    mask = 2 * length - 1
    k = ch.sent - length
    if k < 0:
        k = 0
    while k < ch.sent:
        source = state.slots[ch.start + (k & ch.mask)]
        target = state.slots[fresh + (k & mask)]
        copy_payload(source, target)
        target.stamp = source.stamp
        target.pub = source.pub
        target.rel = source.rel
        target.hrel = source.hrel
        target.level = source.level
        k += 1
    free_block(state, ch.start, order)
    ch.start = fresh
    ch.mask = mask
    keep_room(state, length)
    if ch.cap >= INFINITY and ch.keep == 0:
        ch.grow_at = ch.removed + mask + 1
    elif mask + 1 >= ch.cap and ch.keep == 0:
        ch.grow_at = INFINITY
    else:
        ch.grow_at = mask + 1
    if is_recording(state):
        if ch.producer == ch.consumer and ch.grow_at == INFINITY:
            # A unit that feeds itself looks at the journal each time it has gone around its ring.
            ch.grow_at = ch.sent + mask + 1
    return True
