"""Trees: routes of a packet to several places, which share links until they part.

A tree is a list of ports: that by which the source sends, then the outputs that the packet takes,
those of one router next to each other and behind those that lead to it. Of every port there are
four words, all first words in front of all second ones: the port; the first output at the router
that it leads to, or beyond the number of ports the first of the readers; the output that leads to
its router; and twice the number of its readers, plus 1 for the last output of a router.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.noc.calendars import EACH_CALENDAR, book_at, first_free, without_past


@inlined
def leads_to(parameters, tree, length, k):
    """The first output at the router that an output leads to; from ``length`` on a reader."""
    return parameters[tree + length + k]


@inlined
def leads_from(parameters, tree, length, k):
    """The output that leads to the router of an output; 0 for the source."""
    return parameters[tree + 2 * length + k]


@inlined
def first_at(parameters, tree, length, k):
    """The first output of the router of an output."""
    while k > 1 and not is_last(parameters, tree, length, k - 1):
        k -= 1
    return k


@inlined
def readers_at(parameters, tree, length, k):
    """Readers at the place that an output leads to."""
    return parameters[tree + 3 * length + k] >> 1


@inlined
def outputs_at(parameters, tree, length, j):
    """Outputs of the router whose first one is ``j``."""
    k = j
    while not is_last(parameters, tree, length, k):
        k += 1
    return k + 1 - j


@inlined
def is_last(parameters, tree, length, k):
    """Whether an output is the last of its router."""
    return parameters[tree + 3 * length + k] & 1 != 0


@inlined
def _input(parameters, tree, length, j, ports):
    # The calendar of the input of the router with the outputs from j on.
    return EACH_CALENDAR * (ports + parameters[tree + leads_from(parameters, tree, length, j)])


@inlined
def _output(parameters, tree, k):
    return EACH_CALENDAR * parameters[tree + k]


@kernel
def first_in_all(parameters, intervals, tree, length, j, ports, c, n, time, spare):
    """The first ``n`` cycles from ``c`` on in which an input and all outputs of a router are free.

    Intervals that are over at ``time`` are given back. ``ports`` is the number of ports, behind
    whose calendars as outputs are those as inputs.

    Returns
    -------
    tuple
        The first of these cycles, and the first spare interval.
    """
    inside = _input(parameters, tree, length, j, ports)
    spare = without_past(intervals, inside, time, spare)
    k = j
    while True:
        spare = without_past(intervals, _output(parameters, tree, k), time, spare)
        if is_last(parameters, tree, length, k):
            break
        k += 1
    begin = c - 1
    while begin != c:
        begin = c
        k = j
        while True:
            c, _, _, _, _ = first_free(intervals, inside, _output(parameters, tree, k), c, n)
            if is_last(parameters, tree, length, k):
                break
            k += 1
    return c, spare


@kernel
def book_at_all(parameters, intervals, tree, length, j, ports, c, n, time, spare):
    """Take [c, c + n) at the input and all outputs of a router; the first spare interval."""
    spare = book_at(intervals, _input(parameters, tree, length, j, ports), c, n, time, spare)
    k = j
    while True:
        spare = book_at(intervals, _output(parameters, tree, k), c, n, time, spare)
        if is_last(parameters, tree, length, k):
            break
        k += 1
    return spare
