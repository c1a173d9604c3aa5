"""Carriers: the ends of a route, which take a token to another place as a packet, or to another
chip as a message.

``send_packet`` takes a token from the FIFO at its producer, hands it to the network at its clock
and sends it to the other end by a FIFO of the tokens under way. ``receive_packet`` waits for the
packet, sends the token to the consumer, and only then lets go of its place among those under way.
``multicast_packet`` sends a packet that goes to several places over a tree of links, where units
``receive_packet`` wait for it.
"""

from __future__ import annotations

from stepsim.kernels.arena import copy_payload, retain
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.tiles import ceil_div, token_bytes
from stepsim.kernels.layout import Status
from stepsim.kernels.noc import carried
from stepsim.kernels.queues import (
    await_token,
    emit_copy,
    emit_reserved,
    head,
    head_slot,
    room,
    room_after,
    take,
    wait_for_slot,
)

SEND, _send = declare(
    "send_packet",
    inputs=("data",),
    outputs=("under_way",),
    parameters=("network", "flit_bytes", "route", "receiver", "length", "*path"),
)


@SEND
def step_send_packet(un, state):
    """Resume points: 0 next token, 1 place under way."""
    its = _send(un, state)
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.data)
            if status != 0:
                return status
            head(un, state, its.data)
            un.fires += 1
            un.pc = 1
        status = room(un, state, its.under_way)
        if status != 0:
            return status
        if not carried.has_place(state, its.network):
            return Status.NO_SPACE
        wait_for_slot(un, state, its.under_way)
        token = state.slots[head_slot(state, its.data)]
        size = token_bytes(state, token)
        flits = max(1, ceil_div(size, its.flit_bytes))
        carried.send_packet(
            state, its.network, its.route, its.path, its.length, its.receiver, un.clk, size, flits
        )
        sent = emit_reserved(un, state, its.under_way, 0, token.level)
        copy_payload(token, sent)
        retain(state, sent)
        take(un, state, its.data)
        un.pc = 0


MULTICAST, _multicast = declare(
    "multicast_packet",
    inputs=("data",),
    outputs=("*under_way",),
    parameters=("network", "flit_bytes", "route", "length", "*tree"),
    words=("reserved",),
)


@MULTICAST
def step_multicast_packet(un, state):
    """Resume points: 0 next token, 1 places under way, on the way to every reader.

    ``tree`` has four words of each of ``length`` ports, then the units that receive; see
    :mod:`stepsim.kernels.noc.trees`.
    """
    its = _multicast(un, state)
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.data)
            if status != 0:
                return status
            head(un, state, its.data)
            un.fires += 1
            un.reserved = 0
            un.pc = 1
        while un.reserved < un.nout:
            d = state.parameters[its.under_way + un.reserved]
            status = room_after(un, state, d, 0, False)
            if status != 0:
                return status
            wait_for_slot(un, state, d)
            un.reserved += 1
        token = state.slots[head_slot(state, its.data)]
        size = token_bytes(state, token)
        flits = max(1, ceil_div(size, its.flit_bytes))
        carried.send_to_all(
            state, its.network, its.route, its.tree, its.length, un.nout, un.clk, size, flits
        )
        for j in range(un.nout):
            sent = emit_reserved(un, state, state.parameters[its.under_way + j], 0, token.level)
            copy_payload(token, sent)
            retain(state, sent)
        take(un, state, its.data)
        un.pc = 0


RECEIVE, _receive = declare(
    "receive_packet", inputs=("under_way",), outputs=("data",), parameters=("route",)
)


@RECEIVE
def step_receive_packet(un, state):
    """Resume points: 0 next token, 1 its packet is there, 2 place in the FIFO of the consumer."""
    its = _receive(un, state)
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.under_way)
            if status != 0:
                return status
            head(un, state, its.under_way)
            un.fires += 1
            un.need = its.route
            un.pc = 1
            return Status.WAIT_MEMORY
        if un.pc == 1:
            if not carried.receive_packet(state, its.route):
                return Status.NO_PACES
            un.pc = 2
        status = room(un, state, its.data)
        if status != 0:
            return status
        token = state.slots[head_slot(state, its.under_way)]
        emit_copy(un, state, its.data, 0, token.level, token)
        take(un, state, its.under_way)
        un.pc = 0
