"""Streams of requests in front of a DRAM, without a program: users' own address traces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range, shown
from stepsim.dram.numbers import whole_array
from stepsim.dram.run import KINDS, DramRun
from stepsim.errors import ArgError, did_you_mean
from stepsim.kernels import (
    LOG_WORDS,
    PICKED,
    STREAMS,
    DramSpec,
    commands,
    dram_words,
    forwarded_reads,
    locate,
    new_traffic,
    run_traffic,
)
from stepsim.machine import Dram

_COLUMNS = ("address", "write", "stream", "earliest")
_POLICIES = {"streams": STREAMS, "picked": PICKED}

_MOST_CYCLES = 1 << 50
_OPTIONS = {
    "rounds": Range(_MOST_CYCLES, "requests of a stream per cycle", low=0),
    "every": Range(_MOST_CYCLES, "cycles between attempts"),
    "outstanding": Range(_MOST_CYCLES, "reads of a stream under way", low=0),
    "outstanding_in_all": Range(_MOST_CYCLES, "reads under way", low=0),
    "gap": Range(_MOST_CYCLES, "cycles after a return", low=0),
    "log": Range(1 << 28, "commands that are kept", low=0),
}
_REQUEST_BYTES = Range(1 << 30, "bytes that a request counts as")
# What the rows of each array may be; the table of streams has a row for every number.
_MOST = {
    "addresses": (1 << 63) - 1,
    "writes": 1,
    "streams": (1 << 20) - 1,
    "earliest": _MOST_CYCLES,
}


def spec_of(dram: Dram | str) -> DramSpec:
    """The parameters of a DRAM for the kernels, from a preset by name or from a description.

    Raises
    ------
    ArgError : neither a name nor a description.
    MachineError : no such preset.
    """
    if isinstance(dram, str):
        dram = Dram(preset=dram)
    if not isinstance(dram, Dram):
        raise ArgError(
            f"spec: expected the name of a preset or a stepsim.machine.Dram, found {shown(dram)}"
        )
    return DramSpec(**dram.numbers())


def simulate(
    addresses: Any,
    writes: Any = None,
    *,
    streams: Any = None,
    earliest: Any = None,
    spec: Dram | str = "hbm2-hdl",
    policy: str = "streams",
    rounds: int = 0,
    every: int = 1,
    outstanding: int = 0,
    outstanding_in_all: int = 0,
    gap: int = 0,
    request_bytes: int | None = None,
    log: int = 0,
) -> DramRun:
    """Send requests to a DRAM until all of them are complete.

    Requests of a stream go in order; those of different streams compete according to the policy.

    Parameters
    ----------
    addresses : bytes, an array of whole numbers [requests]; or an Arrow table with a column
        ``address`` and, where needed, ``write``, ``stream`` and ``earliest``.
    writes : which requests are writes [requests]; None: all are reads.
    streams : number of the stream of every request, from 0; None: one stream.
    earliest : first cycle in which a request may be sent; None: cycle 0.
    spec : name of a preset, or a :class:`stepsim.machine.Dram`.
    policy : ``streams``: all streams send in every cycle; ``picked``: one request per cycle, of the
        next stream in turn, which is held until it is accepted.
    rounds : requests of a stream per cycle, with the policy ``streams``; 0: until one is refused.
    every : cycles from one attempt to the next.
    outstanding : reads of a stream that may be under way; 0: any number. outstanding_in_all : the
        same limit for all streams together.
    gap : cycles after the return of a read in which nothing is sent.
    request_bytes : bytes that a request counts as in bandwidths; None: an access of the DRAM.
    log : number of commands to keep, from the first on, for :meth:`DramRun.commands`.

    Raises
    ------
    ArgError : arrays of different lengths, values that are not whole numbers or out of range, an
        unknown column of the table, an array given in addition to one, an unknown policy, or an
        option out of range.
    MachineError : no such preset.
    """
    given = {"writes": writes, "streams": streams, "earliest": earliest}
    if hasattr(addresses, "column_names"):
        given = _of_table(addresses, given)
        addresses = given.pop("addresses")
    address = _numbers("addresses", addresses, None)
    count = len(address)
    write, stream, first = (
        _numbers(name, np.zeros(count, int) if values is None else values, count)
        for name, values in given.items()
    )
    options = {
        "rounds": rounds, "every": every, "outstanding": outstanding,
        "outstanding_in_all": outstanding_in_all, "gap": gap, "log": log,
    }  # fmt: skip
    options = {name: _OPTIONS[name].checked(name, value) for name, value in options.items()}
    if request_bytes is not None:
        request_bytes = _REQUEST_BYTES.checked("request_bytes", request_bytes)
    if not isinstance(policy, str) or policy not in _POLICIES:
        raise ArgError(f"policy: expected 'streams' or 'picked', found {shown(policy)}")
    numbers = spec_of(spec)
    order = np.argsort(stream, kind="stable")
    begin = np.searchsorted(stream[order], np.arange(int(stream.max(initial=0)) + 2))
    returns = 64
    if write.any():
        # Any number of reads answered by the write queue may wait for their return.
        reads = np.asarray(locate(dram_words(numbers, 0), address[write == 0]))
        returns = max(returns, int(np.bincount(reads).max(initial=0)))
    words = dram_words(numbers, returns)
    traffic = new_traffic(
        words, begin.astype(np.int64), address[order], write[order], first[order],
        channels=numbers.channels, policy=_POLICIES[policy], rounds=options["rounds"],
        every=options["every"], limit=options["outstanding"],
        limit_in_all=options["outstanding_in_all"], gap=options["gap"], log_rows=options["log"],
    )  # fmt: skip
    logged = run_traffic(traffic)
    if logged < 0:
        raise AssertionError("requests are left that nothing can complete")
    counts = {
        kind: sum(int(commands(words, c, number)) for c in range(numbers.channels))
        for number, kind in enumerate(KINDS)
        if kind
    }
    counts["forwarded"] = sum(int(forwarded_reads(words, c)) for c in range(numbers.channels))
    stamps = {}
    for name in ("tried", "accepted", "command", "done"):
        stamps[name] = np.empty(count, np.int64)
        stamps[name][order] = getattr(traffic, name)
    rows = traffic.log[: logged * LOG_WORDS].reshape(-1, LOG_WORDS)
    rows[:, 3] = np.where(rows[:, 3] < 0, -1, order[rows[:, 3]] if count else -1)
    return DramRun(
        stream=stream, address=address, write=write.astype(bool), **stamps,
        request_bytes=numbers.access_bytes if request_bytes is None else request_bytes,
        counts=counts, log=rows,
    )  # fmt: skip


def _of_table(table: Any, beside: dict[str, Any]) -> dict[str, Any]:
    """The columns of a table by the names of arguments, together with the other arguments."""
    if "address" not in table.column_names:
        raise ArgError(
            f"addresses: expected a table with a column 'address', found the columns "
            f"{', '.join(table.column_names) or 'none'}"
        )
    for column in table.column_names:
        if column not in _COLUMNS:
            near = did_you_mean(column, _COLUMNS)
            raise ArgError(
                f"addresses: the table has an unknown column {shown(column)}{near} Known are "
                f"{', '.join(_COLUMNS)}; rename it, or select these alone"
            )
    found = {**beside, "addresses": table["address"].to_numpy()}
    for column, name in (("write", "writes"), ("stream", "streams"), ("earliest", "earliest")):
        if column in table.column_names:
            if beside[name] is not None:
                raise ArgError(
                    f"{name}: the table of addresses has a column {column!r} too; give one of them"
                )
            found[name] = table[column].to_numpy()
    return found


def _numbers(name: str, values: Any, count: int | None) -> NDArray[np.int64]:
    array: Any = whole_array(name, values)
    if array.ndim != 1:
        raise ArgError(f"{name}: expected an array of one dim, found {array.ndim} dims")
    if count is not None and len(array) != count:
        raise ArgError(
            f"{name}: expected one number for each of {count} addresses, found {len(array)}"
        )
    for value in (array.min(initial=0), array.max(initial=0)):
        if not 0 <= value <= _MOST[name]:
            wanted = "true or false" if name == "writes" else f"numbers from 0 to {_MOST[name]}"
            raise ArgError(f"{name}: expected {wanted}, found {int(value)}")
    return np.ascontiguousarray(array.astype(np.int64))
