"""What every chip does in a collective: the system layer of ASTRA-sim (MIT, commit af2492b).

A chip has tokens, ``parallel`` of them. A token becomes a queued message; after a local delay it is
free, and the oldest queued message is sent with it, for which a receive is posted; when that has a
message, the token begins anew.
"""

from __future__ import annotations

import numpy as np

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.noc.chips.events import schedule
from stepsim.kernels.noc.chips.layout import (
    CollectiveAlgorithm,
    CollectiveKind,
    Happening,
)
from stepsim.kernels.noc.chips.links import enter
from stepsim.kernels.noc.chips.matches import find, keep


@kernel
def _delay(state, node, time, reduce):
    # Delays of a chip that end at one time are one event, which is scheduled with the first.
    run = state.run[0]
    part = state.parts[node]
    d = run.free_delay
    run.free_delay = state.delays[d].follower
    state.delays[d].reduce = reduce
    state.delays[d].follower = -1
    g = part.group
    while g >= 0:
        group = state.groups[g]
        if group.time == time:
            state.delays[group.final].follower = d
            group.final = d
            return
        g = group.follower
    g = run.free_group
    group = state.groups[g]
    run.free_group = group.follower
    group.time = time
    group.first = d
    group.final = d
    group.follower = part.group
    part.group = g
    schedule(state, time, Happening.DELAY, node)


@inlined
def _partner(state, node):
    part = state.parts[node]
    other = node
    if part.offset > 0:
        if (node // part.offset) % 2 == 0:
            other = (node + part.offset) % state.run[0].chips
        else:
            other = (node - part.offset) % state.run[0].chips
    part.destination = other
    part.source = other


@inlined
def _update(state, node):
    # Partner and amount of the message after the one that was queued.
    run = state.run[0]
    part = state.parts[node]
    n = run.chips
    if run.algorithm == CollectiveAlgorithm.DIRECT:
        part.destination = (part.destination + 1) % n
        if part.destination == node:
            part.destination = (part.destination + 1) % n
        part.source = (part.source - 1) % n
        if part.source == node:
            part.source = (part.source - 1) % n
    elif run.algorithm == CollectiveAlgorithm.HALVING_DOUBLING:
        if part.doubling != 0:
            part.offset *= 2
            part.amount //= 2
        if part.doubling == 0 or (run.kind == CollectiveKind.ALL_REDUCE and part.offset == n):
            part.doubling = 0
            part.offset //= 2
            part.amount *= 2
        _partner(state, node)


@kernel
def _insert(state, node, now):
    run = state.run[0]
    part = state.parts[node]
    if part.zero == 0 and part.others == 0:
        part.zero = run.parallel
        part.others = run.following
        part.toggle = 1 - part.toggle
    reduces = False
    if part.zero > 0:
        part.zero -= 1
    else:
        part.others -= 1
        reduces = run.kind == CollectiveKind.REDUCE_SCATTER or (
            run.kind == CollectiveKind.ALL_REDUCE and part.toggle != 0
        )
    place = part.head + part.queued
    if place >= run.parallel:
        place -= run.parallel
    queued = state.queue[node * run.parallel + place]
    queued.amount = part.amount
    queued.source = part.source
    queued.destination = part.destination
    part.queued += 1
    _delay(state, node, now + run.endpoint, part.amount if reduces else np.int64(-1))
    _update(state, node)


@kernel
def _send(state, node, now):
    # The oldest queued message, if there is one and a token to send it with.
    run = state.run[0]
    part = state.parts[node]
    if part.queued == 0 or part.left == 0 or part.free == 0:
        return
    queued = state.queue[node * run.parallel + part.head]
    part.head = part.head + 1 if part.head + 1 < run.parallel else np.int64(0)
    part.queued -= 1
    part.left -= 1
    part.free -= 1
    k = run.messages
    run.messages = k + 1
    message = state.messages[k]
    message.source = node
    message.destination = queued.destination
    message.amount = queued.amount
    message.chunk = part.chunk
    message.place = node
    message.sent = now
    message.post_source = queued.source
    enter(state, k, now)
    there = find(state, part.chunk, queued.source, node, queued.amount, 0)
    if there >= 0:
        state.messages[there].received = now
        schedule(state, now, Happening.RECEIVE, node)
    else:
        keep(state, part.chunk, queued.source, node, queued.amount, 2 * k + 1)


@kernel
def begin(state, node, chunk, now):
    """A chip begins a chunk, or is done when none is left."""
    run = state.run[0]
    part = state.parts[node]
    if chunk == run.chunks:
        part.finish = now
        return
    n = run.chips
    part.chunk = chunk
    part.zero = 0
    part.others = 0
    part.toggle = 0
    part.left = run.sends
    part.free = 0
    part.received = 0
    part.head = 0
    part.queued = 0
    gathers = run.kind == CollectiveKind.ALL_GATHER
    if run.algorithm == CollectiveAlgorithm.HALVING_DOUBLING:
        part.amount = run.chunk_bytes if gathers else run.chunk_bytes // 2
        part.offset = n // 2 if gathers else 1
        part.doubling = 0 if gathers else 1
        _partner(state, node)
    else:
        part.amount = run.chunk_bytes if gathers else run.chunk_bytes // n
        part.destination = (node + 1) % n
        part.source = (node - 1) % n
    for _ in range(run.parallel):
        _insert(state, node, now)


@kernel
def _after_delay(state, node, now):
    # A token is free.
    run = state.run[0]
    part = state.parts[node]
    part.free += 1
    if (
        run.algorithm == CollectiveAlgorithm.DIRECT
        and run.kind == CollectiveKind.ALL_REDUCE
        and part.left <= run.chips - 1
    ):
        # The second half sends what all others have contributed to.
        if part.received < run.chips - 1:
            return
        for _ in range(run.parallel):
            _send(state, node, now)
    else:
        _send(state, node, now)
    if part.left == 0 and part.free == run.parallel:
        begin(state, node, part.chunk + 1, now)


@inlined
def _reduction(state, amount):
    # Two reads and a write of local memory.
    return 3 * np.int64(amount / state.rates[2] * 1e9)


@kernel
def end_delays(state, node, now):
    """The delays of a chip that end now, among them those that are added meanwhile."""
    run = state.run[0]
    part = state.parts[node]
    g = part.group
    while state.groups[g].time != now:
        g = state.groups[g].follower
    d = state.groups[g].first
    while d >= 0:
        reduce = state.delays[d].reduce
        if reduce < 0:
            _after_delay(state, node, now)
        else:
            _delay(state, node, now + _reduction(state, reduce), np.int64(-1))
        after = state.delays[d].follower
        state.delays[d].follower = run.free_delay
        run.free_delay = d
        d = after
    # Groups that were added meanwhile are before this one.
    before = np.int64(-1)
    one = part.group
    while one != g:
        before = one
        one = state.groups[one].follower
    if before < 0:
        part.group = state.groups[g].follower
    else:
        state.groups[before].follower = state.groups[g].follower
    state.groups[g].follower = run.free_group
    run.free_group = g


@kernel
def receive(state, node, now):
    """A receive of a chip has its message."""
    state.parts[node].received += 1
    _insert(state, node, now)


@kernel
def arrive(state, k, now):
    """A message has come to its chip: to a receive that waits for it, or it waits for one."""
    message = state.messages[k]
    node = message.destination
    post = find(state, message.chunk, message.source, node, message.amount, 1)
    if post >= 0:
        message.received = now
        receive(state, node, now)
    else:
        keep(state, message.chunk, message.source, node, message.amount, 2 * k)
