"""The buffer unit: groups of tiles in sets of frames, played back for every reference.

Its rules are in docs/hardware.md (units and limits). Words of a buffer, from `table` on: whether
each set is free; for every reference the first frame of its group; for every frame the stop of its
tile, and its successor in the group, or -1.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.hardware.fifos import has, head, put, room, take
from stepsim.kernels.hardware.layout import (
    Acted,
    reference,
    reference_number,
    reference_release,
    reference_stop,
)


def buffer_words(sets: int, frames: int, references: int) -> int:
    """Private words of a buffer."""
    return sets + references + 2 * sets * frames


@inlined
def _highest_free(un, state):
    """The highest-numbered free set, -1 for none."""
    i = un.block - 1
    while i >= 0 and state.words[un.table + i] == 0:
        i -= 1
    return i


@kernel
def step_buffer(un, state):
    """Reserve, play, start, store and release, in parallel.

    Inputs are data and references, outputs references and data. The order below is such that each
    action sees the state at the start of the cycle.
    """
    if state.globals[0].cycle < un.start:
        return Acted.NOTHING  # its alarm rings
    data, wanted = state.lists[un.in0], state.lists[un.in0 + 1]
    sent, played = state.lists[un.out0], state.lists[un.out0 + 1]
    free = un.table
    firsts = free + un.block
    stops = firsts + un.entry
    successors = stops + un.block * un.length
    acted = Acted.NOTHING

    spare, current, releasing, loaded = un.spare, un.current, un.release, un.load
    # A set that groups share is freed with each of them, and may be reserved in that very cycle.
    # Then it is reserved and free: of two writes the later one in the list of actions counts.
    if spare < 0:
        reserved = _highest_free(un, state)
        if reserved >= 0:
            state.words[free + reserved] = 0
            un.spare = reserved
            acted = Acted.WORKED

    if loaded >= 0:
        if releasing < 0 and room(state, played):
            successor = state.words[successors + loaded]
            asked = un.load_reference
            if successor >= 0:
                put(state, played, state.words[stops + loaded])
                un.load = successor
            else:
                put(state, played, un.rank + reference_stop(asked))
                un.load = -1
                if reference_release(asked) != 0:
                    un.release = reference_number(asked)
            if reference_release(asked) != 0:
                if successor < 0 or successor // un.length != loaded // un.length:
                    state.words[free + loaded // un.length] = 1
            un.fired += 1
            if un.first < 0:
                un.first = state.globals[0].cycle
            un.latest = state.globals[0].cycle
            acted = Acted.WORKED
    elif has(state, wanted):
        asked = take(state, wanted)
        un.load = state.words[firsts + reference_number(asked)]
        un.load_reference = asked
        acted = Acted.WORKED

    if releasing < 0 and (current >= 0 or spare >= 0) and has(state, data):
        stop = head(state, data)
        if stop < un.rank or room(state, sent):
            take(state, data)
            if current < 0:
                frame = spare * un.length
                un.spare = -1
                un.current = frame + 1 if un.length > 1 else -1
            else:
                frame = current
                last = frame % un.length == un.length - 1
                un.current = -1 if last or stop >= un.rank else frame + 1
            if un.before < 0:
                state.words[firsts + un.group] = frame
            else:
                state.words[successors + un.before] = frame
            state.words[stops + frame] = stop
            state.words[successors + frame] = -1
            un.before = frame
            if stop >= un.rank:
                put(state, sent, reference(un.group, 1, stop - un.rank))
                un.group = un.group + 1 if un.group + 1 < un.entry else 0
                un.before = -1
            acted = Acted.WORKED

    if releasing >= 0:
        state.words[firsts + releasing] = -1
        un.release = -1
        acted = Acted.WORKED
    return acted
