"""The outcome of streams of requests: time stamps of every request, and metrics over all of
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = deferred("pyarrow")

KINDS = ("", "ACT", "PRE", "RD", "WR", "REF")
"""Commands by their number."""


@dataclass(frozen=True)
class DramRun:
    """Requests in the order in which they were given, with their stamps in cycles.

    Attributes
    ----------
    stream, address, write : of every request.
    tried, accepted, command, done : first attempt; acceptance; RD or WR, -1 for a read that the
        write queue answered; return of the data, -1 for a write.
    request_bytes : bytes that a request counts as.
    counts : commands by kind, and ``forwarded``: reads that the write queue answered.
    """

    stream: NDArray[np.int64]
    address: NDArray[np.int64]
    write: NDArray[np.bool_]
    tried: NDArray[np.int64]
    accepted: NDArray[np.int64]
    command: NDArray[np.int64]
    done: NDArray[np.int64]
    request_bytes: int
    counts: dict[str, int]
    log: NDArray[np.int64] = field(repr=False)

    @property
    def cycles(self) -> int:
        """The last return of a read or WR command, counted from the first attempt in cycle 0."""
        return int(self._complete().max(initial=0))

    def metrics(self) -> dict[str, float]:
        """Metrics over all requests, by name; latencies are from acceptance to return.

        ``bytes_per_cycle_mid60`` is over the middle 60 % of completions, 0 below 50 of them;
        percentiles are nearest ranks; ``row_hit_rate`` is the share of RD and WR without an ACT.
        """
        reads, writes = ~self.write, self.write
        latency = np.sort((self.done - self.accepted)[reads])
        waits = (self.command - self.accepted)[writes]
        complete = np.sort(self._complete())
        count = len(complete)
        cycles = self.cycles
        low, high = count // 5, 4 * count // 5
        middle = int(complete[high] - complete[low]) if count >= 50 else 0
        moved = self.counts["RD"] + self.counts["WR"]
        return {
            "requests": count,
            "reads": int(reads.sum()),
            "writes": int(writes.sum()),
            "cycles": cycles,
            "last_read_done": int(self.done[reads].max(initial=0)),
            "last_write_command": int(self.command[writes].max(initial=0)),
            "last_accepted": int(self.accepted.max(initial=0)),
            "bytes_per_cycle": _ratio(count * self.request_bytes, cycles),
            "bytes_per_cycle_mid60": _ratio((high - low) * self.request_bytes, middle),
            "requests_per_cycle": _ratio(count, cycles),
            "read_latency_mean": _mean(latency),
            "read_latency_p50": _rank(latency, 0.5),
            "read_latency_p99": _rank(latency, 0.99),
            "read_latency_min": int(latency[0]) if len(latency) else 0,
            "read_latency_max": int(latency[-1]) if len(latency) else 0,
            "read_latency_from_first_try_mean": _mean((self.done - self.tried)[reads]),
            "write_wait_mean": _mean(waits),
            "write_wait_max": int(waits.max(initial=0)),
            **{kind.lower(): self.counts[kind] for kind in KINDS[1:]},
            "forwarded": self.counts["forwarded"],
            "row_hit_rate": _ratio(moved - self.counts["ACT"], moved),
        }

    def table(self) -> pa.Table:
        """A row for every request, in Arrow; stamps of events that did not occur are null."""
        columns: dict[str, Any] = {
            "stream": self.stream, "address": self.address, "write": self.write,
        }  # fmt: skip
        for name in ("tried", "accepted", "command", "done"):
            values = getattr(self, name)
            columns[name] = pa.array(values, mask=values < 0)
        return pa.table(columns)

    def commands(self) -> pa.Table:
        """A row for every command in the order of issue, as an Arrow table; needs a run with
        ``log``.

        Columns: clock, channel, command, request (null for a refresh), bank of the channel, row.
        """
        clock, channel, kind, request, bank, row = self.log.T
        none = request < 0
        return pa.table(
            {
                "clock": clock,
                "channel": channel,
                "command": [KINDS[one] for one in kind],
                "request": pa.array(request, mask=none),
                "bank": pa.array(bank, mask=none),
                "row": pa.array(row, mask=none),
            }
        )

    def _complete(self) -> NDArray[np.int64]:
        return np.where(self.write, self.command, self.done)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _mean(values: NDArray[np.int64]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _rank(ordered: NDArray[np.int64], share: float) -> int:
    return int(ordered[max(0, ceil(share * len(ordered)) - 1)]) if len(ordered) else 0
