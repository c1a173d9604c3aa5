"""Simulated annealing of a placement: operators and memory ports move, with the routes of streams.

A move puts an operator into a slot of a tile, from which another operator moves to where it was, or
a memory port to another place. The loads of all links are kept, and change by the routes of the
streams of what moved. Random numbers come from outside, so that the same numbers give the same
placement with and without a compiler.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined


class Annealing(NamedTuple):
    """What is placed, where it is, and the best that was found.

    Items are operators, then memory ports. Places are those that items can have.

    Attributes
    ----------
    words : operators, slots, memory places, places, weight of the busiest link against the
        sum, links, streams, items, groups, moves.
    route_begin, route : links from each place to each other, by from * places + to, of one network
        after the other.
    slot_place : place of every slot that an operator can have. [slots]
    port_place : places that a memory port can have.
    region, slot_region : of every operator, or -1 where it is free, and of every slot.
    place : of every item. [items] Written.
    slot : of every operator. [operators] Written.
    occupant : operator in every slot, or -1. [slots] Written.
    source, target, nbytes : of every stream: items that it joins, and its bytes. [streams]
    table : of every stream: the first of the routes that it may take. [streams]
    group : of every stream: number of those that share links as one, or -1. [streams]
    uses : streams of a group on a link. [groups x links] Written.
    of_item_begin, of_item : streams of every item.
    load : bytes of every link. [links] Written.
    score : bytes of the busiest link and bytes times hops, now and of the best. [4] Written.
    best : place of every item in the best placement. [items] Written.
    item, goal : of every move: the item, and a number of its slot or port place. [moves]
    chance : by how much every move may be worse. [moves] float64
    """

    words: Any
    route_begin: Any
    route: Any
    slot_place: Any
    port_place: Any
    region: Any
    slot_region: Any
    place: Any
    slot: Any
    occupant: Any
    source: Any
    target: Any
    nbytes: Any
    table: Any
    group: Any
    uses: Any
    of_item_begin: Any
    of_item: Any
    load: Any
    score: Any
    best: Any
    item: Any
    goal: Any
    chance: Any


_OPERATORS: Final = 0
_SLOTS: Final = 1
_PORTS: Final = 2
_PLACES: Final = 3
_WEIGHT: Final = 4
_LINKS: Final = 5
_STREAMS: Final = 6
_ITEMS: Final = 7
_GROUPS: Final = 8
_MOVES: Final = 9

_INT: Final = np.dtype(np.int64)
_LAYOUT: Final = Annealing(
    *[np.dtype(np.float64) if name == "chance" else _INT for name in Annealing._fields]
)


@inlined
def _carry_shared(state, group, amount, sign, first, last):
    # The same for one of the streams that are one on the links they share.
    hops = 0
    uses = group * state.words[_LINKS]
    for k in range(first, last):
        link = state.route[k]
        before = state.uses[uses + link]
        state.uses[uses + link] = before + sign
        if before == 0 or before + sign == 0:
            state.load[link] += amount
            hops += amount
    return hops


@inlined
def _carry(state, stream, sign):
    # Add a stream to the links of its route, or take it away; the change of bytes times hops.
    pair = (
        state.place[state.source[stream]] * state.words[_PLACES] + state.place[state.target[stream]]
    )
    amount = sign * state.nbytes[stream]
    first = state.route_begin[state.table[stream] + pair]
    last = state.route_begin[state.table[stream] + pair + 1]
    if state.group[stream] >= 0:
        return _carry_shared(state, state.group[stream], amount, sign, first, last)
    for k in range(first, last):
        state.load[state.route[k]] += amount
    return amount * (last - first)


@inlined
def _carry_all(state, item, except_of, sign):
    # The same for all streams of an item but those that join it with another.
    hops = 0
    for k in range(state.of_item_begin[item], state.of_item_begin[item + 1]):
        stream = state.of_item[k]
        if state.source[stream] != except_of and state.target[stream] != except_of:
            hops += _carry(state, stream, sign)
    return hops


@inlined
def _busiest(state):
    most = 0
    for link in range(state.words[_LINKS]):
        if state.load[link] > most:
            most = state.load[link]
    return most


@inlined
def _swap(state, item, slot):
    # Put an operator into a slot, and what is there into its own; the other operator or -1.
    other = state.occupant[slot]
    own = state.slot[item]
    state.occupant[own] = other
    state.occupant[slot] = item
    state.slot[item] = slot
    state.place[item] = state.slot_place[slot]
    if other >= 0:
        state.slot[other] = own
        state.place[other] = state.slot_place[own]
    return other


@inlined
def _keep(state, most, hops):
    # The placement as it is becomes the best.
    state.score[2] = most
    state.score[3] = hops
    for item in range(state.words[_ITEMS]):
        state.best[item] = state.place[item]


@apart
def _run(state):
    operators = state.words[_OPERATORS]
    weight = state.words[_WEIGHT]
    for link in range(state.words[_LINKS]):
        state.load[link] = 0
    for k in range(state.words[_GROUPS] * state.words[_LINKS]):
        state.uses[k] = 0
    hops = 0
    for stream in range(state.words[_STREAMS]):
        hops += _carry(state, stream, 1)
    most = _busiest(state)
    if state.score[2] < 0:
        _keep(state, most, hops)
    for move in range(state.words[_MOVES]):
        item = state.item[move]
        is_port = item >= operators
        other = -1
        before = 0
        if is_port:
            before = state.place[item]
            after = state.port_place[state.goal[move] % state.words[_PORTS]]
        else:
            before = state.slot[item]
            after = state.goal[move] % state.words[_SLOTS]
            other = state.occupant[after]
            if state.slot_place[after] == state.slot_place[before]:
                continue
            if state.region[item] >= 0 and state.region[item] != state.slot_region[after]:
                continue
            if other >= 0:
                own = state.region[other]
                if own >= 0 and own != state.slot_region[before]:
                    continue
        if after == before:
            continue
        change = _carry_all(state, item, -1, -1)
        if other >= 0:
            change += _carry_all(state, other, item, -1)
        if is_port:
            state.place[item] = after
        else:
            _swap(state, item, after)
        change += _carry_all(state, item, -1, 1)
        if other >= 0:
            change += _carry_all(state, other, item, 1)
        new = _busiest(state)
        if (new - most) * weight + change <= state.chance[move]:
            most = new
            hops += change
            if most < state.score[2] or (most == state.score[2] and hops < state.score[3]):
                _keep(state, most, hops)
        else:
            _carry_all(state, item, -1, -1)
            if other >= 0:
                _carry_all(state, other, item, -1)
            if is_port:
                state.place[item] = before
            else:
                _swap(state, item, before)
            _carry_all(state, item, -1, 1)
            if other >= 0:
                _carry_all(state, other, item, 1)
    state.score[0] = most
    state.score[1] = hops
    return 0


def _entry(state):
    """Make all moves."""
    return _run(by_reference(state))


anneal: Any = cached_entry(_entry, _LAYOUT, what="search of placements")
