"""Networks of chips before their first event."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.kernels.noc.chips.layout import (
    BUCKET,
    DELAY,
    EVENT,
    GROUP,
    LINK,
    MESSAGE,
    PART,
    QUEUED,
    RUN,
    ChipsState,
    ChipTopology,
)
from stepsim.kernels.noc.chips.plan import CollectivePlan

_MOST_BUCKETS = 1 << 22


def links_of(topology: ChipTopology, chips: int) -> int:
    """Number of directed links."""
    return chips * chips if topology == ChipTopology.FULLY_CONNECTED else 2 * chips


def new_chip_messages(
    topology: ChipTopology, chips: int, latency: float, rate: float,
    sent: Any, source: Any, destination: Any, amount: Any,
) -> ChipsState:  # fmt: skip
    """Messages that are given, with their times in ns, chips and bytes; rate in bytes/ns."""
    count = len(sent)
    state = _network(topology, chips, (latency, rate, 1.0), count, 0)
    state.run[0].messages = count
    for name, values in (
        ("sent", sent), ("source", source), ("destination", destination), ("amount", amount),
    ):  # fmt: skip
        state.messages[name] = values
    state.messages["place"] = source
    return state


def new_chip_collective(
    topology: ChipTopology, chips: int, latency: float, rate: float,
    plan: CollectivePlan, endpoint: int, memory: float,
) -> ChipsState:  # fmt: skip
    """A collective on all chips; rate in bytes/ns, memory in bytes/s."""
    tokens = chips * plan.parallel
    state = _network(topology, chips, (latency, rate, memory), chips * plan.messages, tokens)
    run = state.run[0]
    run.collective = 1
    run.kind, run.algorithm = plan.kind, plan.algorithm
    run.chunks, run.chunk_bytes = plan.chunks, plan.chunk_bytes
    run.parallel, run.following, run.sends = plan.parallel, plan.following, plan.sends
    run.endpoint = endpoint
    run.buckets = 1 << min(_MOST_BUCKETS, 2 * tokens).bit_length()
    places = tokens + chips  # an entry is given back after what it leads to
    delays, groups = (np.zeros(places, kind) for kind in (DELAY, GROUP))
    for entries in (delays, groups):
        entries["follower"] = np.arange(1, places + 1)
        entries["follower"][-1] = -1
    parts = np.zeros(chips, PART)
    parts["group"] = parts["finish"] = -1
    return state._replace(
        parts=parts, queue=np.zeros(tokens, QUEUED), delays=delays, groups=groups,
        buckets=np.full(int(run.buckets), -1, np.int64).repeat(2).view(BUCKET),
        match=np.full(2 * len(state.messages), -1, np.int64),
    )  # fmt: skip


def _network(
    topology: ChipTopology, chips: int, rates: tuple[float, float, float], messages: int,
    tokens: int,
) -> ChipsState:  # fmt: skip
    """Chips and links without messages, with room for so many, and for events of all tokens."""
    run = np.zeros(1, RUN)
    run["chips"], run["topology"] = chips, topology
    links = np.zeros(links_of(topology, chips), LINK)
    links["first"] = links["final"] = -1
    sent = np.zeros(messages, MESSAGE)
    for name in ("arrived", "received", "follower"):
        sent[name] = -1
    nothing = np.zeros(0, np.int64)
    return ChipsState(
        run=run, rates=np.array(rates, np.float64),
        # Every message, link and token may have an event, and a chip's delays one more.
        heap=np.zeros(messages + len(links) + 2 * tokens + chips, EVENT),
        links=links, messages=sent, parts=np.zeros(0, PART), queue=np.zeros(0, QUEUED),
        delays=np.zeros(0, DELAY), groups=np.zeros(0, GROUP), buckets=np.zeros(0, BUCKET),
        match=nothing,
    )  # fmt: skip
