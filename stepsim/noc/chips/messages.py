"""Messages between chips, with or without congestion for links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import counted, flag, shown
from stepsim.dram import whole_array
from stepsim.errors import ArgError, did_you_mean
from stepsim.kernels import new_chip_messages, run_chips
from stepsim.machine import ChipDimension, Chips, Machine
from stepsim.noc.chips.network import check_times, chips_of, contended
from stepsim.noc.chips.run import ChipRun

COLUMNS = ("time", "source", "destination", "bytes")
"""What is given of a message."""

_MOST_MESSAGES = 1 << 23
_MOST_BYTES = 1 << 50
_MOST_NS = 1 << 61


def simulate_chips(messages: Any, chips: Chips | Machine, *, congestion: bool = True) -> ChipRun:
    """Send messages between chips until all of them have arrived.

    With congestion a link sends one message at a time, and those that wait are sent in the order in
    which they came; a device has a message as a whole before it sends it on. Without congestion a
    message takes the same time whatever else is sent. The rules are those of ASTRA-sim's analytical
    networks (MIT, commit 599a047).

    Parameters
    ----------
    messages : an Arrow table or a mapping of columns with a value for each message: ``source`` and
        ``destination`` (chips from 0, dimension 0 first), ``bytes``, and ``time`` (in ns; all 0
        without it).
    chips : a :class:`stepsim.machine.Chips`, or a machine with chips.
    congestion : whether messages wait for links; only without may there be several dimensions.

    Raises
    ------
    ArgError : other values; a chip that there is not; a message from a chip to itself or of 0
        bytes; times beyond 2**61 ns; a network that congestion is not modeled for.
    """
    network = chips_of(chips)
    congestion = flag("congestion", congestion)
    if congestion:
        topology, dimension = contended(network)
    known = _columns(messages)
    _check(known, network.total)
    sent, source, destination, amount = known
    most = int(amount.max(initial=0))
    latest = int(sent.max(initial=0))
    if not congestion:
        check_times("messages", network, latest, most, max(one[1] for one in network.dimensions))
        return _without_congestion(network, known)
    hops = hops_of(dimension, source, destination)
    check_times("messages", network, latest, most, int(hops.sum()))
    state = new_chip_messages(
        topology, dimension.chips, dimension.latency_ns, dimension.bytes_per_ns, *known
    )
    run_chips(state)
    arrived = state.messages["arrived"].copy()
    return ChipRun(
        network, sent, source, destination, amount, hops, arrived,
        _last(network.total, destination, arrived), int(state.run[0].last), state.links,
    )  # fmt: skip


def _columns(messages: Any) -> tuple[NDArray[np.int64], ...]:
    """Times, sources, destinations and bytes."""
    is_table = hasattr(messages, "column_names")
    if not is_table and not isinstance(messages, Mapping):
        raise ArgError(
            f"messages: expected an Arrow table or a mapping of columns, found {shown(messages)}"
        )
    names = list(messages.column_names if is_table else messages)
    for name in COLUMNS[1:]:
        if name not in names:
            raise ArgError(
                f"messages: expected a column '{name}', found the columns "
                f"{', '.join(shown(one, str) for one in names) or 'none'}"
            )
    for name in names:
        if name not in COLUMNS:
            near = did_you_mean(name, COLUMNS)
            raise ArgError(
                f"messages: unknown column {shown(name)}{near} Known: {', '.join(COLUMNS)}"
            )
    found = {name: _whole(name, messages[name]) for name in COLUMNS if name in names}
    count = len(found["source"])
    for name, values in found.items():
        if len(values) != count:
            raise ArgError(
                f"messages: column '{name}': expected one number for each of {count} sources, "
                f"found {len(values)}"
            )
    return found.get("time", np.zeros(count, np.int64)), *(found[name] for name in COLUMNS[1:])


def _whole(name: str, values: Any) -> NDArray[np.int64]:
    """A column of whole numbers that are below 2**62, of either sign."""
    if getattr(values, "null_count", 0):
        nulls = counted(values.null_count, "null")
        raise ArgError(f"messages: column '{name}' has {nulls}; expected a number in every row")
    array: Any = whole_array(f"messages: column '{name}'", values)
    if array.ndim != 1:
        raise ArgError(
            f"messages: column '{name}': expected an array of one dim, found {array.ndim} dims"
        )
    for value in (array.min(initial=0), array.max(initial=0)):
        if not -_MOST_NS <= int(value) <= _MOST_NS:
            raise ArgError(
                f"messages: column '{name}': expected numbers up to 2**61, found {int(value)}"
            )
    return np.ascontiguousarray(array, np.int64)


def _check(columns: tuple[NDArray[np.int64], ...], chips: int) -> None:
    """Refuse the first message that cannot be sent."""
    sent, source, destination, amount = columns
    if len(sent) > _MOST_MESSAGES:
        raise ArgError(
            f"messages: expected {_MOST_MESSAGES} or fewer, found {len(sent)}; send them in parts"
        )
    limits = (
        (sent, 0, _MOST_NS, "time", "ns from 0"),
        (source, 0, chips - 1, "source", f"one of the chips 0 to {chips - 1}"),
        (destination, 0, chips - 1, "destination", f"one of the chips 0 to {chips - 1}"),
        (amount, 1, _MOST_BYTES, "bytes", "1 to 2**50 bytes"),
    )
    for values, low, high, name, wanted in limits:
        wrong = np.flatnonzero((values < low) | (values > high))
        if len(wrong):
            raise ArgError(
                f"messages[{wrong[0]}]: {name}: expected {wanted}, found {values[wrong[0]]}"
            )
    wrong = np.flatnonzero(source == destination)
    if len(wrong):
        raise ArgError(
            f"messages[{wrong[0]}]: chip {source[wrong[0]]} sends to itself; leave out what stays "
            "on a chip"
        )


def hops_of(
    dimension: ChipDimension, source: NDArray[np.int64], destination: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Links that a message passes in a dimension, by its places there."""
    if dimension.topology == "ring":
        ahead = (destination - source) % dimension.chips
        hops: NDArray[np.int64] = np.minimum(ahead, dimension.chips - ahead)
        return hops
    return np.full(len(source), 2 if dimension.topology == "switch" else 1)


def _without_congestion(network: Chips, columns: tuple[NDArray[np.int64], ...]) -> ChipRun:
    """Only the lowest dimension counts in which source and destination differ."""
    sent, source, destination, amount = columns
    hops = np.zeros(len(sent), np.int64)
    delay = np.zeros(len(sent), np.int64)
    a, b = source, destination
    for dimension in network.dimensions:
        here, there = a % dimension.chips, b % dimension.chips
        a, b = a // dimension.chips, b // dimension.chips
        passed = hops_of(dimension, here, there)
        taken = np.trunc(passed * dimension.latency_ns + amount / dimension.bytes_per_ns)
        first = (hops == 0) & (here != there)
        hops[first] = passed[first]
        delay[first] = taken[first].astype(np.int64)
    arrived = sent + delay
    finish = _last(network.total, destination, arrived)
    last = int(arrived.max(initial=0))
    return ChipRun(network, sent, source, destination, amount, hops, arrived, finish, last, None)


def _last(
    chips: int, destination: NDArray[np.int64], arrived: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The last arrival at every chip, -1 where nothing arrives."""
    found: NDArray[np.int64] = np.full(chips, -1, np.int64)
    np.maximum.at(found, destination, arrived)
    return found
