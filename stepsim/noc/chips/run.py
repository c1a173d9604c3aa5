"""What became of messages between chips: times of each, and what chips and links did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.kernels import MOST_WAITED_NS
from stepsim.machine import Chips
from stepsim.results import named_table, sums_by

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = deferred("pyarrow")


@dataclass(frozen=True)
class ChipRun:
    """Messages in the order in which they were given, or sent by a collective; times in ns.

    Attributes
    ----------
    chips : the network.
    sent_ns, source, destination, nbytes, hops, arrived_ns : of every message; hops are links.
    finish_ns : of every chip: its last arrival, or the end of its part of a collective; -1 where
        there is none.
    last_event_ns : when the last link was free again; without congestion the last arrival.
    """

    chips: Chips
    sent_ns: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    hops: NDArray[np.int64]
    arrived_ns: NDArray[np.int64]
    finish_ns: NDArray[np.int64]
    last_event_ns: int
    _links: NDArray[np.void] | None = field(repr=False)

    @property
    def ns(self) -> int:
        """Time in which the last chip finishes, from 0."""
        return int(self.finish_ns.max(initial=0))

    def messages(self) -> pa.Table:
        """A row for every message, as an Arrow table."""
        return named_table("chip_messages", self._of_messages())

    def per_chip(self) -> pa.Table:
        """A row for every chip, as an Arrow table."""
        chips = self.chips.total
        columns: dict[str, Any] = {"chip": np.arange(chips)}
        for what, end in (("sent", self.source), ("received", self.destination)):
            columns[f"{what}_messages"] = np.bincount(end, minlength=chips)
            columns[f"{what}_bytes"] = sums_by(chips, end, self.nbytes)
        none = self.finish_ns < 0
        columns["chip_finish_ns"] = pa.array(self.finish_ns, mask=none)
        return named_table("chips", columns)

    def links(self) -> pa.Table:
        """A row for every directed link, as an Arrow table; device ``count`` is the switch.

        Raises
        ------
        ArgError : the run was without congestion, which has no links.
        """
        links = self._links
        if links is None:
            raise ArgError("links: without congestion no links are followed; run with congestion")
        begin, end = _ends(*self.chips.dimensions[0][:2])
        busy, waited = links["busy_ns"], links["waited_ns"]
        return named_table(
            "chip_links",
            {
                "from_device": begin,
                "to_device": end,
                "link_messages": links["messages"],
                "link_bytes": links["carried"],
                "link_busy_ns": busy,
                "link_waited_ns": pa.array(waited, mask=waited == MOST_WAITED_NS),
                "link_busy_share": busy / max(1, self.last_event_ns),
            },
        )

    def _of_messages(self) -> dict[str, Any]:
        columns = {
            "sent_ns": self.sent_ns,
            "source_chip": self.source,
            "destination_chip": self.destination,
            "message_bytes": self.nbytes,
            "hops": self.hops,
            "arrived_ns": self.arrived_ns,
        }
        if self._links is not None:
            [dimension] = self.chips.dimensions
            alone = np.trunc(dimension.latency_ns + self.nbytes / dimension.bytes_per_ns)
            taken = self.arrived_ns - self.sent_ns
            columns["message_wait_ns"] = taken - self.hops * alone.astype(np.int64)
        return columns


@dataclass(frozen=True)
class CollectiveRun(ChipRun):
    """A collective on all chips.

    Attributes
    ----------
    kind, algorithm : what was sent, and in which steps.
    chunk : of every message, the number of its chunk.
    received_ns : when its chip had both the message and a step that waits for it.
    chunks, chunk_bytes : chunks, and bytes of each.
    """

    kind: str
    algorithm: str
    chunk: NDArray[np.int64]
    received_ns: NDArray[np.int64]
    chunks: int
    chunk_bytes: int

    def _of_messages(self) -> dict[str, Any]:
        return {
            **super()._of_messages(),
            "received_ns": self.received_ns,
            "collective_chunk": self.chunk,
        }


def _ends(topology: str, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The devices at both ends of every link, in the order of the engine."""
    chips = np.arange(count)
    if topology == "fully-connected":
        return chips.repeat(count), np.tile(chips, count)
    if topology == "switch":
        switch = np.full(count, count)
        return np.append(chips, switch), np.append(switch, chips)
    return np.append(chips, chips), np.append((chips + 1) % count, (chips - 1) % count)
