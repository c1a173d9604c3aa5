"""Tokens as packets on a network, in the order of time, beside the units that send them.

A packet is booked as the rules of the model ``link`` say; see :mod:`stepsim.kernels.noc.link`. Here
packets appear while a program runs. An event at ``t`` is served when no unit can run and whatever
happens next happens at ``t`` or later, for what a unit sends after an event at ``t`` is created at
``t`` or later. Packets that are created in one cycle come in the order of the numbers of their
routes, whatever the order in which units run; after that, a packet that was created first comes
first in every event of one cycle. One that is created at ``t`` because another arrived at ``t``, by
a wire without delay, and made room, comes after all events of that cycle, and is created after all
packets that were created in it before.

All numbers lie in ``state.scratch``: in front of the words of units those that can be counted
beforehand, behind them the intervals of calendars and the heap of events. When these are full, the
run begins again with more.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import NamedTuple
from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.jit import apart, inlined, kernel
from stepsim.kernels.calendar import next_unit, schedule
from stepsim.kernels.layout import INFINITY, Cause
from stepsim.kernels.memory.dispatch import advance as advance_memory, issue as issue_at_memory
from stepsim.kernels.memory.published import ends_from
from stepsim.kernels.noc import messages
from stepsim.kernels.noc.calendars import (
    EACH_CALENDAR,
    EACH_INTERVAL,
    NOTHING,
    WAITED,
    begin_calendars,
    begin_pool,
    has_spare,
    reserve,
    waited_for,
)
from stepsim.kernels.noc.event_queue import (
    CONTENT,
    COUNT,
    EACH_EVENT,
    NUMBER,
    QUEUE_WORDS,
    begin_queue,
    drop_first,
    enter,
    first_event,
    first_time,
    follow,
    has_room,
)
from stepsim.kernels.noc.heap import drop_event, push_event
from stepsim.kernels.noc.trees import (
    book_at_all,
    first_at,
    first_in_all,
    is_last,
    leads_from,
    leads_to,
    outputs_at,
    readers_at,
)
from stepsim.kernels.parking import is_due
from stepsim.kernels.recording.flag import is_recording
from stepsim.kernels.recording.journal import PORT_BITS, is_full, note, place_of_port

_ROUTER: Final = 0
_WIRE: Final = 1
_INJECT: Final = 2
_QUANTUM: Final = 3
_PORTS: Final = 4
_ROUTES: Final = 5
_PACKETS: Final = 6
_LONGEST: Final = 7
_POOL: Final = 8  # place of the intervals
CONSTANTS: Final = 9
"""Numbers of a network: router, wire, inject, quantum, ports, routes, packets that may be under way
at once, ports of the longest route, place of what can grow."""

_BEGUN: Final = 9
_FULL: Final = 10
_SPARE: Final = 11  # first spare interval
_CREATED: Final = 12  # of the heap of routes
_UNUSED: Final = 13  # first packet that is no longer used
_FIRST_NEW: Final = 14  # first packet that never was
_SEGMENTS: Final = 15  # segments so far
_LISTED: Final = 16  # routes that come to have a packet to send
_LEFT: Final = 17  # of a recorded run: one more than the cycle whose events are not all served
_PLACES: Final = 18  # for intervals, and as many for events
_EVENTS: Final = 19  # of segments
_HEADER: Final = _EVENTS + QUEUE_WORDS

_EACH_PORT: Final = 2 * EACH_CALENDAR + 1

_PATH: Final = 0
_LENGTH: Final = 1
_UNIT: Final = 2
_OLDEST: Final = 4
_LATEST: Final = 5
_WAITING: Final = 6
_DUE: Final = 7
_FRESH: Final = 9
_COUNT: Final = 10
_BYTES: Final = 11
_SENT: Final = 12
_EACH_ROUTE: Final = 13

_CREATE: Final = 0
_FLITS: Final = 1
_ARRIVAL: Final = 3
_AFTER: Final = 4
_ROUTE: Final = 5
_EACH_PACKET: Final = 6

_BEHIND: Final = 1  # second word of a packet at a port
_EACH_HOP: Final = 2
GROWING: Final = EACH_INTERVAL + EACH_EVENT
"""Words of an interval and an event."""

_HOP_BITS: Final = PORT_BITS
_PACKET_BITS: Final = 20
_SEGMENT_BITS: Final = _HOP_BITS + _PACKET_BITS
MOST_PORTS: Final = 1 << _HOP_BITS
"""Ports that a route may have."""
MOST_PACKETS: Final = 1 << _PACKET_BITS
"""Packets that may be under way at once."""
_SEGMENT: Final = 1 << _SEGMENT_BITS

# What an event knows besides its number, so that it need not look it up: whether the segment is the
# last of its packet, how many ports come after the next one, and the place of that one among the
# parameters; and the calendars that it needs. A segment on a tree has only the first of these.
_LAST: Final = 1
_HOP: Final = 2
_HOPS: Final = (MOST_PORTS - 1) * _HOP
_PORT_SHIFT: Final = _HOP_BITS + 1
_PORT: Final = 1 << _PORT_SHIFT
_CALENDAR_BITS: Final = 32
_CALENDAR: Final = (1 << _CALENDAR_BITS) - 1


def network_words(ports: int, routes: int, packets: int, longest: int) -> int:
    """Words of a network that can be counted beforehand."""
    each_packet = _EACH_PACKET + (_EACH_HOP + 1) * longest
    fixed = _HEADER + _EACH_PORT * ports + _EACH_ROUTE * routes
    return fixed + each_packet * packets


def lacks_events(words: NDArray[np.int64]) -> bool:
    """Whether a run of a network has to begin again with more room for its events."""
    return bool(words[_FULL])


class Loads(NamedTuple):
    """What crossed the network in a run: packets, their bytes and flits by route, and the cycles
    that segments waited for every port."""

    packets: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    flits: NDArray[np.int64]
    waited: NDArray[np.int64]


def loads_of(words: NDArray[np.int64], ports: int, routes: int) -> Loads:
    """The loads that a run left in its scratch space, by the ports and routes of its network."""
    at = _HEADER + _EACH_PORT * ports
    packets, nbytes, flits = (
        words[at + field * routes : at + (field + 1) * routes].copy()
        for field in (_COUNT, _BYTES, _SENT)
    )
    return Loads(packets, nbytes, flits, waited_for(words[_HEADER:], ports))


class Carried(NamedTuple):
    """The arrays of a network.

    Attributes
    ----------
    intervals : of calendars, those of inputs behind those of outputs.
    free : first cycle in which an injection port is free. [ports]
    path, length, unit : of a route: place of its ports among the parameters, their number, negative
        for a tree, and the unit that receives. A tree is a route, and behind it comes one for each
        of its readers, without ports. [routes]
    asked : one more than the clock at which that unit came to wait, 0 when it does not. [routes]
    oldest, latest, waiting : packets of a route: those that the unit has not received, and the
        first that has not left. [routes]
    due, due_route : heap of the routes with packets that have not left.
    fresh : those of them that are not yet in it.
    create, flits, tail, arrival, after, route : of a packet: also the flits of its last segment,
        and the next packet of its route. [packets]
    booked : of a packet at every port of its route the end of its last segment there, and the place
        of the events of segments that others may follow. [packets x longest x 2]
    begun : of a recorded run, begin of the segments that follow each other up to that.
    queue, events : of segments; see :mod:`stepsim.kernels.noc.event_queue`.
    """

    intervals: Any
    free: Any
    path: Any
    length: Any
    unit: Any
    asked: Any
    oldest: Any
    latest: Any
    waiting: Any
    due: Any
    due_route: Any
    fresh: Any
    create: Any
    flits: Any
    tail: Any
    arrival: Any
    after: Any
    route: Any
    booked: Any
    begun: Any
    queue: Any
    events: Any


@inlined
def _arrays(words):
    p, r, n = words[_PORTS], words[_ROUTES], words[_PACKETS]
    a = _HEADER
    b = a + _EACH_PORT * p
    c = b + _EACH_ROUTE * r
    d = c + _EACH_PACKET * n
    e = words[_POOL] + EACH_INTERVAL * words[_PLACES]
    return Carried(
        words[a:], words[a + 2 * EACH_CALENDAR * p :],
        words[b:], words[b + r :], words[b + 2 * r :], words[b + 3 * r :], words[b + 4 * r :],
        words[b + 5 * r :], words[b + 6 * r :], words[b + 7 * r :], words[b + 8 * r :],
        words[b + 9 * r :],
        words[c:], words[c + n :], words[c + 2 * n :], words[c + 3 * n :], words[c + 4 * n :],
        words[c + 5 * n :], words[d:], words[d + _EACH_HOP * n * words[_LONGEST] :],
        words[_EVENTS:], words[e:],
    )  # fmt: skip


@inlined
def _routes(words, field):
    # Where a field of the routes begins: steps of units know arrays without lengths.
    return _HEADER + _EACH_PORT * words[_PORTS] + field * words[_ROUTES]


@inlined
def _packets(words, field):
    return _routes(words, _EACH_ROUTE) + field * words[_PACKETS]


@kernel
def _begin(state, constants):
    # The first packet of a run: no port is taken, no packet under way.
    words = state.scratch
    for i in range(CONSTANTS):
        words[i] = state.parameters[constants + i]
    words[_BEGUN] = 1
    begin_calendars(words[_HEADER:], 2 * words[_PORTS])
    ends = _routes(words, _OLDEST)
    for i in range(3 * words[_ROUTES]):
        words[ends + i] = NOTHING
    words[_UNUSED] = NOTHING


@inlined
def has_place(state, constants):
    """Whether the next packet has a place; those on a chip are counted beforehand."""
    return state.parameters[constants] != messages.MARK or messages.has_place(state, constants)


@inlined
def _new_packet(words, arrival):
    after = _packets(words, _AFTER)
    packet = words[_UNUSED]
    if packet == NOTHING:
        packet = words[_FIRST_NEW]
        words[_FIRST_NEW] += 1
    else:
        words[_UNUSED] = words[after + packet]
    words[_packets(words, _ARRIVAL) + packet] = arrival
    words[after + packet] = NOTHING
    return packet


@inlined
def _created(words, route, create, nbytes, flits, arrival):
    words[_routes(words, _COUNT) + route] += 1
    words[_routes(words, _BYTES) + route] += nbytes
    words[_routes(words, _SENT) + route] += flits
    packet = _new_packet(words, arrival)
    words[_packets(words, _CREATE) + packet] = create
    words[_packets(words, _FLITS) + packet] = flits
    words[_packets(words, _ROUTE) + packet] = route
    return packet


@inlined
def _follow(words, first, route, packet):
    # The packet comes behind the latest of its route, of those that begin with the field ``first``;
    # whether it is the only one.
    begin = _routes(words, first) + route
    latest = _routes(words, _LATEST) + route
    alone = words[begin] == NOTHING
    if alone:
        words[begin] = packet
    else:
        words[_packets(words, _AFTER) + words[latest]] = packet
    words[latest] = packet
    return alone


@inlined
def _list(words, route):
    # The route comes to have a packet to send.
    words[_routes(words, _FRESH) + words[_LISTED]] = route
    words[_LISTED] += 1


@kernel
def send_packet(state, constants, route, path, length, unit, create, nbytes, flits):
    """A packet of ``flits`` is created on a route, which has places under way for it."""
    if state.parameters[constants] == messages.MARK:
        messages.send_message(state, route, path, length, unit, create, nbytes)
        return
    words = state.scratch
    if words[_BEGUN] == 0:
        _begin(state, constants)
    words[_routes(words, _PATH) + route] = path
    words[_routes(words, _LENGTH) + route] = length
    words[_routes(words, _UNIT) + route] = unit
    packet = _created(words, route, create, nbytes, flits, NOTHING)
    _follow(words, _OLDEST, route, packet)
    waiting = _routes(words, _WAITING) + route
    if words[waiting] == NOTHING:
        words[waiting] = packet
        _list(words, route)


@kernel
def send_to_all(state, constants, route, tree, length, readers, create, nbytes, flits):
    """A packet of ``flits`` is created on a tree, which has places under way for it to all readers.

    Of the packet that passes the ports, ``booked`` has those that its readers wait for behind its
    ports, and ``arrival`` how many of them have not arrived.
    """
    words = state.scratch
    if words[_BEGUN] == 0:
        _begin(state, constants)
    words[_routes(words, _PATH) + route] = tree
    words[_routes(words, _LENGTH) + route] = -length
    packet = _created(words, route, create, nbytes, flits, readers)
    waited_for = _packets(words, _EACH_PACKET)
    waited_for += _EACH_HOP * (packet * words[_LONGEST] + length)
    for reader in range(readers):
        own = route + 1 + reader
        one = _new_packet(words, NOTHING)
        words[waited_for + _EACH_HOP * reader] = one
        words[_routes(words, _UNIT) + own] = state.parameters[tree + 4 * length + reader]
        _follow(words, _OLDEST, own, one)
    if _follow(words, _WAITING, route, packet):
        _list(words, route)


@kernel
def receive_packet(state, route):
    """The oldest packet of a route, which has arrived, is received; False if the run is to begin
    again with more room."""
    words = state.scratch
    if words[_ROUTER] == messages.MARK:
        messages.receive_message(state, route)
        return True
    if words[_FULL] != 0:
        return False
    oldest = _routes(words, _OLDEST) + route
    after = _packets(words, _AFTER) + words[oldest]
    packet = words[oldest]
    words[oldest] = words[after]
    words[after] = words[_UNUSED]
    words[_UNUSED] = packet
    return True


@kernel
def _await_packet(state, route, clock):
    # The unit at the end of a route waits for its oldest packet.
    words = state.scratch
    net = _arrays(words)
    arrival = net.arrival[net.oldest[route]]
    if arrival >= 0 or words[_FULL] != 0:
        # What it sends then has the time of the arrival.
        schedule(state, net.unit[route], max(arrival - 1, clock))
    else:
        net.asked[route] = clock + 1


@inlined
def issue(state, port, clock, requests):
    """As ``issue`` of the memory; a unit without a port waits for a packet of a route, which is
    given as ``requests``."""
    if port >= 0:
        issue_at_memory(state, port, clock, requests)
    else:
        _await_packet(state, requests, clock)


@inlined
def rest(state, limit):
    """As ``advance``, of a memory that knows all completions when accesses are issued."""


@inlined
def never_ends(state):
    """As ``ends_from``, of such a memory."""
    return INFINITY


@inlined
def may_end(state):
    """As ``ends_from``, of a memory of which it is not known."""
    return 0


@inlined
def _next_time(state):
    # The time of the next event.
    words = state.scratch
    if words[_BEGUN] == 0 or words[_FULL] != 0:
        return INFINITY
    if words[_BEGUN] == 1:
        words[_BEGUN] = 2
        words[_PLACES] = (len(words) - words[_POOL]) // GROWING
        _begin_pools(by_reference(state))
    if words[_LISTED] > 0:
        _come_due(by_reference(state))
    time = first_time(words[_EVENTS:])
    if words[_CREATED] > 0:
        time = min(time, words[_routes(words, _DUE)])
    return time


@apart
def _begin_pools(state):
    words = state.scratch
    net = _arrays(words)
    begin_queue(net.queue, words[_PLACES])
    words[_SPARE] = begin_pool(net.intervals, words[_POOL] - _HEADER, words[_PLACES])


@apart
def _come_due(state):
    # Routes that have come to have a packet to send enter the heap of these.
    words = state.scratch
    net = _arrays(words)
    while words[_LISTED] > 0:
        words[_LISTED] -= 1
        route = net.fresh[words[_LISTED]]
        created = net.create[net.waiting[route]]
        words[_CREATED] = push_event(net.due, net.due_route, words[_CREATED], created, route)


@inlined
def advance(state, limit):
    """As ``advance`` of the memory; in every cycle, the memory comes first.

    The memory is left behind where it ends no access, for the network knows nothing else of it.
    """
    shared = state.globals[0]
    if is_recording(state) and state.scratch[_LEFT] != 0:
        _serve(by_reference(state), state.scratch[_LEFT] - 1, 0)
    while not is_full(state):
        time = _next_time(state)
        first = min(limit, time)
        if ends_from(state) <= first:
            advance_memory(state, first)
        if shared.calendar_length > 0:
            limit = min(limit, state.units[next_unit(state)].evt)
        if time > limit or time == INFINITY or is_due(state, time):
            break
        until = min(limit, ends_from(state) - 1)
        if shared.parked > 0:
            until = min(until, shared.parked_until - 1)
        _serve(by_reference(state), time, until)
        if shared.calendar_length > 0:
            limit = min(limit, state.units[next_unit(state)].evt)


@apart
def _serve(state, time, until):
    # All events of a cycle, and of those up to ``until`` before which no unit has to run. Events
    # that the journal has no room for are served first when it has.
    shared = state.globals[0]
    words = state.scratch
    net = _arrays(words)
    while True:
        if is_recording(state):
            words[_LEFT] = time + 1
        while words[_FULL] == 0:
            if is_full(state):
                return
            segment = first_time(net.queue)
            created = net.due[0] if words[_CREATED] > 0 else INFINITY
            if segment <= time and segment <= created:
                _book_segment(state, words, net, segment)
            elif created <= time:
                _leave(state, words, net)
            else:
                time = min(segment, created)
                break
        if is_recording(state):
            words[_LEFT] = 0
        if words[_FULL] != 0 or time > until or time == INFINITY:
            return
        if shared.calendar_length > 0 and state.units[next_unit(state)].evt < time:
            return


@inlined
def _lacks_room(state, words, net, packet, time):
    # A booking takes two intervals, and an event may lead to two. If they are not there, the unit
    # at the end of the route learns it, and the run begins again.
    if has_room(net.queue, 2) and has_spare(net.intervals, words[_SPARE], 2):
        return False
    _give_up(state, words, net, packet, time)
    return True


@kernel
def _lacks_room_for_all(state, words, net, packet, j, time):
    # The same at a router of a tree, whose outputs take an interval each and lead to an event each.
    route = net.route[packet]
    needed = 2 + outputs_at(state.parameters, net.path[route], -net.length[route], j)
    if has_room(net.queue, needed) and has_spare(net.intervals, words[_SPARE], needed):
        return False
    _give_up(state, words, net, packet, time)
    return True


@kernel
def _give_up(state, words, net, packet, time):
    words[_FULL] = 1
    route = net.route[packet]
    if net.length[route] < 0:
        route += 1  # its first reader
    schedule(state, net.unit[route], time)


@inlined
def _leave(state, words, net):
    # The first packet of the route that is due takes its injection port.
    time = net.due[0]
    route = net.due_route[0]
    packet = net.waiting[route]
    if _lacks_room(state, words, net, packet, time):
        return
    words[_CREATED] = drop_event(net.due, net.due_route, words[_CREATED])
    after = net.after[packet]
    net.waiting[route] = after
    if after != NOTHING:
        words[_CREATED] = push_event(
            net.due, net.due_route, words[_CREATED], net.create[after], route
        )
    flits = net.flits[packet]
    port = state.parameters[net.path[route]]
    go = max(time, net.free[port])
    net.free[port] = go + flits
    net.intervals[EACH_CALENDAR * port + WAITED] += go - time
    quantum = words[_QUANTUM]
    segments = (flits + quantum - 1) // quantum
    net.tail[packet] = flits - (segments - 1) * quantum
    length = net.length[route]
    place = _EACH_HOP * packet * words[_LONGEST]
    net.booked[place] = go + flits
    for i in range(place + _EACH_HOP, place + _EACH_HOP * abs(length)):
        net.booked[i] = 0
    note(state, Cause.FLITS, place_of_port(route, 0), go + flits, flits)
    ready = go + words[_INJECT] + words[_ROUTER]
    number = (words[_SEGMENTS] << _SEGMENT_BITS) | (packet << _HOP_BITS) | 1
    words[_SEGMENTS] += segments
    content = 0
    calendars = 0
    if length > 0:
        first = net.path[route] + 1
        content = (first << _PORT_SHIFT) + (length - 2) * _HOP
        calendars = _calendars(words, state.parameters, first)
    if segments > 1:
        enter(net.queue, net.events, ready, number, content, calendars, segments - 1, quantum)
        ready += (segments - 1) * quantum
        number += (segments - 1) << _SEGMENT_BITS
    enter(net.queue, net.events, ready, number, content + _LAST, calendars)


@inlined
def _calendars(words, parameters, port):
    # Those that a segment needs to leave by a port, the place of which is given: as input and as
    # output.
    inside = EACH_CALENDAR * (words[_PORTS] + parameters[port - 1])
    return (inside << _CALENDAR_BITS) | (EACH_CALENDAR * parameters[port])


@inlined
def _book_segment(state, words, net, time):
    event = first_event(net.queue, net.events, time)
    number = net.events[event + NUMBER]
    content = net.events[event + CONTENT]
    calendars = net.events[event + CONTENT + 1]
    j = number & (MOST_PORTS - 1)
    packet = (number >> _HOP_BITS) & (MOST_PACKETS - 1)
    if _lacks_room(state, words, net, packet, time):
        return
    on_tree = calendars == 0
    if on_tree and _lacks_room_for_all(state, words, net, packet, j, time):
        return
    is_alone = net.events[event + COUNT] == 1
    drop_first(net.queue, net.events, event, time, _SEGMENT)
    n = words[_QUANTUM]
    last = content & _LAST
    if last != 0:
        n = net.tail[packet]
    if on_tree:
        _spread_segment(state, words, net, packet, number, j, time, n, last != 0)
        return
    inside = calendars >> _CALENDAR_BITS
    outside = calendars & _CALENDAR
    place = _EACH_HOP * (packet * words[_LONGEST] + j)
    if is_alone and net.booked[place + _BEHIND] == event:
        net.booked[place + _BEHIND] = 0
    ready = max(time, net.booked[place])
    c, words[_SPARE] = reserve(net.intervals, inside, outside, ready, n, time, words[_SPARE])
    if is_recording(state):
        _note_flits(state, words, net, packet, j, c, n, last != 0)
    net.booked[place] = c + n
    net.intervals[outside + WAITED] += c - time
    if content & _HOPS != 0:
        later = c + words[_WIRE] + words[_ROUTER]
        ahead = net.booked[place + _EACH_HOP + _BEHIND]
        if last != 0 or ahead == 0 or not follow(net.events, ahead, later):
            content += _PORT - _HOP
            calendars = _calendars(words, state.parameters, content >> _PORT_SHIFT)
            ahead = enter(net.queue, net.events, later, number + 1, content, calendars)
            net.booked[place + _EACH_HOP + _BEHIND] = ahead if last == 0 else 0
    elif last != 0:
        route = net.route[packet]
        if is_recording(state):
            _note_packet(state, words, net, packet, route, n, c + words[_WIRE] + n)
        _arrive(state, net, packet, route, c + words[_WIRE] + n - 1)


@kernel
def _spread_segment(state, words, net, packet, number, j, time, n, last):
    # A segment on a tree leaves a router by all its outputs there in the same cycles.
    route = net.route[packet]
    tree = net.path[route]
    length = -net.length[route]
    ports = words[_PORTS]
    place = _EACH_HOP * (packet * words[_LONGEST] + j)
    c, spare = first_in_all(
        state.parameters, net.intervals, tree, length, j, ports, max(time, net.booked[place]), n,
        time, words[_SPARE],
    )  # fmt: skip
    words[_SPARE] = book_at_all(
        state.parameters, net.intervals, tree, length, j, ports, c, n, time, spare
    )
    if is_recording(state):
        _note_flits_of_all(state, words, net, packet, tree, length, j, c, n, last)
    net.booked[place] = c + n
    k = j
    while True:
        net.intervals[EACH_CALENDAR * state.parameters[tree + k] + WAITED] += c - time
        to = leads_to(state.parameters, tree, length, k)
        if to < length:
            later = c + words[_WIRE] + words[_ROUTER]
            enter(net.queue, net.events, later, number - j + to, _LAST if last else 0, 0)
        elif last:
            first = to - length
            for reader in range(first, first + readers_at(state.parameters, tree, length, k)):
                if is_recording(state):
                    _note_reader(state, words, net, packet, reader, k, n, c + words[_WIRE] + n)
                _reach(state, words, net, packet, reader, c + words[_WIRE] + n - 1)
        if is_last(state.parameters, tree, length, k):
            break
        k += 1


@inlined
def _reach(state, words, net, packet, reader, arrival):
    # A packet on a tree is with one of its readers, the last of which gives it back.
    route = net.route[packet]
    waited_for = packet * words[_LONGEST] - net.length[route] + reader
    _arrive(state, net, net.booked[_EACH_HOP * waited_for], route + 1 + reader, arrival)
    net.arrival[packet] -= 1
    if net.arrival[packet] == 0:
        net.after[packet] = words[_UNUSED]
        words[_UNUSED] = packet


@inlined
def _note_flits(state, words, net, packet, j, c, n, last):
    # Segments that follow each other are one entry.
    port = place_of_port(net.route[packet], j)
    place = packet * words[_LONGEST] + j
    before = net.booked[_EACH_HOP * place]
    if before != c:
        if before > 0:
            note(state, Cause.FLITS, port, before, before - net.begun[place])
        net.begun[place] = c
    if last:
        note(state, Cause.FLITS, port, c + n, c + n - net.begun[place])


@kernel
def _note_flits_of_all(state, words, net, packet, tree, length, j, c, n, last):
    # The same at all outputs of a router of a tree.
    route = net.route[packet]
    place = packet * words[_LONGEST] + j
    before, begun = net.booked[_EACH_HOP * place], net.begun[place]
    if before != c:
        net.begun[place] = c
    k = j
    while True:
        port = place_of_port(route, k)
        if before > 0 and before != c:
            note(state, Cause.FLITS, port, before, before - begun)
        if last:
            note(state, Cause.FLITS, port, c + n, c + n - net.begun[place])
        if is_last(state.parameters, tree, length, k):
            break
        k += 1


@kernel
def _note_reader(state, words, net, packet, reader, k, n, end):
    # What the last segment, of n flits, waited for on its way to a reader behind output k, from
    # there back to the source.
    route = net.route[packet]
    tree, length = net.path[route], -net.length[route]
    place = packet * words[_LONGEST]
    flits, created = net.flits[packet], net.create[packet]
    go = net.booked[_EACH_HOP * place] - flits
    while k > 0:
        i = place + first_at(state.parameters, tree, length, k)
        c = net.booked[_EACH_HOP * i] - n
        before = leads_from(state.parameters, tree, length, k)
        if before == 0:
            ready = go + words[_INJECT] + words[_ROUTER] + flits - n
        else:
            i = place + first_at(state.parameters, tree, length, before)
            ready = net.booked[_EACH_HOP * i] - n + words[_WIRE] + words[_ROUTER]
        if c > ready:
            note(state, Cause.PORT, place_of_port(route, k), c, c - ready)
        k = before
    if go > created:
        note(state, Cause.PORT, place_of_port(route, 0), go, go - created)
    note(state, Cause.ARRIVAL, route + 1 + reader, end, end - created)


@kernel
def _note_packet(state, words, net, packet, route, n, end):
    # What the last segment, of n flits, waited for on its way.
    flits, created = net.flits[packet], net.create[packet]
    place = packet * words[_LONGEST]
    ready = created
    c = net.booked[_EACH_HOP * place] - flits
    for j in range(net.length[route]):
        if j > 0:
            c = net.booked[_EACH_HOP * (place + j)] - n
        if c > ready:
            note(state, Cause.PORT, place_of_port(route, j), c, c - ready)
        ready = c + words[_WIRE] + words[_ROUTER]
        if j == 0:
            ready = c + words[_INJECT] + words[_ROUTER] + flits - n
    note(state, Cause.ARRIVAL, route, end, end - created)


@inlined
def _arrive(state, net, packet, route, arrival):
    net.arrival[packet] = arrival
    if net.asked[route] != 0 and net.oldest[route] == packet:
        schedule(state, net.unit[route], max(arrival, net.asked[route]) - 1)
        net.asked[route] = 0
