"""Links that send one message at a time: a message is stored, then forwarded."""

from __future__ import annotations

import numpy as np

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.noc.chips.events import schedule
from stepsim.kernels.noc.chips.layout import MOST_WAITED_NS, ChipTopology, Happening


@inlined
def _is_clockwise(run, source, destination):
    ahead = destination - source
    if ahead < 0:
        ahead += run.chips
    return run.chips - ahead >= ahead


@inlined
def _next_device(run, message):
    # Where a message goes from the device at which it is.
    if run.topology == ChipTopology.FULLY_CONNECTED:
        return message.destination
    if run.topology == ChipTopology.SWITCH:
        return message.destination if message.place == run.chips else run.chips
    if _is_clockwise(run, message.source, message.destination):
        return message.place + 1 if message.place + 1 < run.chips else np.int64(0)
    return message.place - 1 if message.place > 0 else run.chips - 1


@inlined
def _next_link(run, message):
    if run.topology == ChipTopology.FULLY_CONNECTED:
        return message.place * run.chips + message.destination
    if run.topology == ChipTopology.SWITCH:
        if message.place == run.chips:
            return run.chips + message.destination
        return message.place
    if _is_clockwise(run, message.source, message.destination):
        return message.place
    return run.chips + message.place


@kernel
def _start(state, number, k, now):
    # The link must be free. Its release comes after the arrival when both are at one time.
    run = state.run[0]
    link = state.links[number]
    message = state.messages[k]
    send = message.amount / state.rates[1]
    busy = np.int64(send)
    link.busy = 1
    link.messages += 1
    link.carried += message.amount
    link.busy_ns += busy
    link.waited_ns = min(link.waited_ns + now - message.entered, MOST_WAITED_NS)
    message.place = _next_device(run, message)
    schedule(state, now + np.int64(state.rates[0] + send), Happening.ENTER, k)
    schedule(state, now + busy, Happening.RELEASE, number)


@kernel
def enter(state, k, now):
    """A message comes to its next link: it is sent, or waits behind those before it."""
    message = state.messages[k]
    message.entered = now
    number = _next_link(state.run[0], message)
    link = state.links[number]
    if link.busy == 0:
        _start(state, number, k, now)
        return
    message.follower = -1
    if link.first < 0:
        link.first = k
    else:
        state.messages[link.final].follower = k
    link.final = k


@kernel
def release(state, number, now):
    """A link is free again, or sends the message that has waited longest."""
    link = state.links[number]
    link.busy = 0
    k = link.first
    if k >= 0:
        link.first = state.messages[k].follower
        _start(state, number, k, now)
