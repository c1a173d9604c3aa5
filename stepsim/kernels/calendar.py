"""The calendar: units waiting for a memory completion or an arrival decision, ordered by time.

An indexed binary heap of unit numbers; the key is ``(unit.evt, unit number)``, so equal times are
served in unit order. Each unit has at most one entry, and its time can be moved either way.
"""

from __future__ import annotations

from stepsim.kernels.jit import kernel

__all__ = ["next_unit", "pop_unit", "schedule"]


@kernel
def _before(U, a, b):
    ta = U[a].evt
    tb = U[b].evt
    return ta < tb or (ta == tb and a < b)


@kernel
def _sift_up(U, H, i):
    unit = H[i]
    while i > 0:
        up = (i - 1) >> 1
        if not _before(U, unit, H[up]):
            break
        H[i] = H[up]
        U[H[i]].hpos = i
        i = up
    H[i] = unit
    U[unit].hpos = i


@kernel
def _sift_down(U, H, n, i):
    unit = H[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(U, H[child + 1], H[child]):
            child += 1
        if not _before(U, H[child], unit):
            break
        H[i] = H[child]
        U[H[i]].hpos = i
        i = child
    H[i] = unit
    U[unit].hpos = i


@kernel
def schedule(U, H, g, unit, time):
    """Enter ``unit`` at ``time``, or move its entry there."""
    record = U[unit]
    record.evt = time
    if record.hpos < 0:
        H[g.heap_len] = unit
        g.heap_len += 1
        _sift_up(U, H, g.heap_len - 1)
    else:
        _sift_up(U, H, record.hpos)
        _sift_down(U, H, g.heap_len, record.hpos)


@kernel
def next_unit(H):
    """The unit that is due first. Needs ``g.heap_len > 0``."""
    return H[0]


@kernel
def pop_unit(U, H, g):
    """Remove and answer the unit that is due first."""
    unit = H[0]
    U[unit].hpos = -1
    g.heap_len -= 1
    if g.heap_len > 0:
        H[0] = H[g.heap_len]
        _sift_down(U, H, g.heap_len, 0)
    return unit
