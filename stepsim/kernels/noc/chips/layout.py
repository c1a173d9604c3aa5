"""The state of a network of chips, of its messages, and of a collective that sends them.

Times are in ns, amounts in bytes. Chips, messages and links are counted from 0, and -1 stands for
no message, no entry or no time. Field names avoid every attribute of ``numpy.record``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np


class ChipTopology(IntEnum):
    """How chips are joined: the devices that a message passes, and the links between them."""

    RING = 0  # links from i to i + 1 have the number i, those from i to i - 1 come after them
    FULLY_CONNECTED = 1  # the link from i to j has the number i * chips + j
    SWITCH = 2  # a device after the chips; links to it have the number i, those from it follow


class CollectiveKind(IntEnum):
    """What a collective leaves on every chip."""

    ALL_REDUCE = 0
    ALL_GATHER = 1
    REDUCE_SCATTER = 2
    ALL_TO_ALL = 3


class CollectiveAlgorithm(IntEnum):
    """In which steps a collective sends."""

    RING = 0
    DIRECT = 1
    HALVING_DOUBLING = 2


class Happening(IntEnum):
    """What an event is, which it adds to four times its number."""

    ENTER = 0  # a message goes to its first link, or has come to the end of one
    RELEASE = 1  # a link has sent a message
    DELAY = 2  # a group of local delays ends
    RECEIVE = 3  # a chip receives a message that was there before


def _records(fields: Any) -> Any:
    # Arrays made with this type give records with names to plain Python as well.
    return np.dtype((np.record, np.dtype([(name, np.int64) for name in fields], align=True)))


RUN = _records(
    [
        "chips",
        "topology",
        "messages",  # given, or sent so far
        "events",  # that are to come
        "scheduled",  # events that ever were
        "last",  # time of the last event
        "collective",  # 1 for a collective, 0 for messages that are given
        "kind",
        "algorithm",
        "chunks",
        "chunk_bytes",
        "parallel",  # messages that a chip may have under way
        "following",  # of every round, those that follow the first `parallel`
        "sends",  # of a chip and chunk
        "endpoint",  # ns before a message can be sent
        "free_delay",  # first of the unused delays
        "free_group",  # first of the unused groups of delays
        "buckets",
    ]
)
"""The run as a whole."""

EVENT = _records(["time", "order", "code"])
"""An event to come; those of one time are in the order of scheduling."""

MOST_WAITED_NS: Final = 1 << 62
"""What the waits at a link are counted up to."""

LINK = _records(["busy", "first", "final", "messages", "carried", "busy_ns", "waited_ns"])
"""Whether it sends, its messages that wait, and what it did: messages, bytes, ns of sending, and ns
for which messages waited."""

MESSAGE = _records(
    [
        "source",
        "destination",
        "amount",
        "sent",
        "arrived",
        "place",  # the device where it is
        "entered",  # when it came to its next link
        "follower",  # the message that waits behind it
        "chunk",
        "received",
        "post_source",  # of the receive that the sender posted with it
    ]
)
"""A message, and the receive that a step of a collective posts with it."""

PART = _records(
    [
        "chunk",
        "zero",  # messages of the round that need no reduction
        "others",  # those that may need one
        "toggle",
        "left",  # messages to send
        "free",  # that may be sent
        "received",
        "amount",  # of the next message
        "destination",
        "source",
        "offset",  # of the partner
        "doubling",  # 1: the offset doubles and the amount halves; 0: the reverse
        "head",  # of the queue
        "queued",
        "group",  # first of its groups of delays
        "finish",
    ]
)
"""The part of a chip in its current chunk."""

QUEUED = _records(["amount", "source", "destination"])
"""A message that is not sent yet."""

DELAY = _records(["reduce", "follower"])
"""A local delay: the bytes that are reduced after it, or -1; an unused one knows the next."""

GROUP = _records(["time", "first", "final", "follower"])
"""Local delays of a chip that end at the same time, in the order of registration."""

BUCKET = _records(["first", "final"])
"""Messages and receives that have no partner yet."""


class ChipsState(NamedTuple):
    """Chips, messages, events; the arrays from ``parts`` on have a use in collectives alone.

    Attributes
    ----------
    run : one record.
    rates : ns of latency, bytes/ns of a link, bytes/s of local memory. [3]
    heap : the events to come.
    links, messages : see :class:`ChipTopology` for the numbers of links.
    parts : of every chip.
    queue : of every chip, ``parallel`` places. [chips * parallel]
    delays, groups : places of all local delays.
    buckets, match : messages and receives by what they must have in common; entry 2k is message k
        and entry 2k + 1 the receive that was posted with it.
    """

    run: Any
    rates: Any
    heap: Any
    links: Any
    messages: Any
    parts: Any
    queue: Any
    delays: Any
    groups: Any
    buckets: Any
    match: Any


CHIPS: Final = ChipsState(
    run=RUN, rates=np.dtype(np.float64), heap=EVENT, links=LINK, messages=MESSAGE, parts=PART,
    queue=QUEUED, delays=DELAY, groups=GROUP, buckets=BUCKET, match=np.dtype(np.int64),
)  # fmt: skip
"""Types of the arrays."""
