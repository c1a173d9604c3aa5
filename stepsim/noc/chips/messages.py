"""Messages between chips, with or without contention for links."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import counted, flag, shown
from stepsim.errors import ArgError
from stepsim.kernels import new_chip_messages, run_chips
from stepsim.machine import ChipDimension, Chips, Machine
from stepsim.noc.chips.network import check_times, chips_of, contended
from stepsim.noc.chips.run import ChipRun

COLUMNS = ("sent_ns", "source_chip", "destination_chip", "message_bytes")
"""What is given of a message, in the order of the columns of an array."""

_MOST_MESSAGES = 1 << 23
_MOST_BYTES = 1 << 50
_MOST_NS = 1 << 61


def simulate_chips(messages: Any, chips: Chips | Machine, *, contention: bool = True) -> ChipRun:
    """Send messages between chips until all of them have arrived.

    With contention a link sends one message at a time, and those that wait are sent in the order in
    which they came; a device has a message as a whole before it sends it on. Without contention a
    message takes the same time whatever else is sent. The rules are those of ASTRA-sim's analytical
    networks (MIT, commit 599a047).

    Parameters
    ----------
    messages : rows of time in ns, source, destination and bytes [messages, 4]; or an Arrow table
        with the columns ``sent_ns`` (optional: 0), ``source_chip``, ``destination_chip`` and
        ``message_bytes``. Chips are counted from 0, dimension 0 first.
    chips : a :class:`stepsim.machine.Chips`, or a machine with chips.
    contention : whether messages wait for links; only without may there be several dimensions.

    Raises
    ------
    ArgError : other values; a chip that there is not; a message from a chip to itself or of 0
        bytes; times beyond 2**61 ns; a network that contention is not modeled for.
    """
    network = chips_of(chips)
    contention = flag("contention", contention)
    known = _columns(messages)
    _check(known, network.total)
    sent, source, destination, amount = known
    most = int(amount.max(initial=0))
    latest = int(sent.max(initial=0))
    if not contention:
        check_times("messages", network, latest, most, max(one[1] for one in network.dimensions))
        return _without_contention(network, known)
    topology, dimension = contended(network)
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
    if hasattr(messages, "column_names"):
        return _of_table(messages)
    rows = _whole("messages", messages)
    if rows.size == 0:
        rows = rows.reshape(0, len(COLUMNS))
    if rows.ndim != 2 or rows.shape[1] != len(COLUMNS):
        raise ArgError(
            f"messages: expected rows of {len(COLUMNS)} numbers (time in ns, source, destination, "
            f"bytes), found an array of shape {rows.shape}"
        )
    return tuple(np.ascontiguousarray(column) for column in rows.T)


def _of_table(table: Any) -> tuple[NDArray[np.int64], ...]:
    missing = [name for name in COLUMNS[1:] if name not in table.column_names]
    if missing:
        raise ArgError(
            f"messages: expected a table with a column '{missing[0]}', found the columns "
            f"{', '.join(table.column_names) or 'none'}"
        )
    found = []
    for name in COLUMNS:
        if name not in table.column_names:
            found.append(np.zeros(table.num_rows, np.int64))
            continue
        column = table[name]
        if column.null_count:
            raise ArgError(
                f"messages: column '{name}' has {counted(column.null_count, 'null')}; expected a "
                "number in every row"
            )
        values = _whole(f"messages: column '{name}'", column.to_numpy())
        found.append(np.ascontiguousarray(values))
    return tuple(found)


def _whole(what: str, values: Any) -> NDArray[np.int64]:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RecursionError):
        array = np.empty(1, object)
    if array.ndim and not array.size:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.max() > _MOST_NS):
        found = shown(values) if array.dtype == object else f"{array.ndim} dims of {array.dtype}"
        raise ArgError(f"{what}: expected an array of whole numbers below 2**61, found {found}")
    return array.astype(np.int64)


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


def _without_contention(network: Chips, columns: tuple[NDArray[np.int64], ...]) -> ChipRun:
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
