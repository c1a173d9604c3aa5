"""The outcome of traffic on a network: times of every transfer, loads of every link, metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError
from stepsim.noc.models import flits_of
from stepsim.noc.tables import link_table
from stepsim.noc.topology import Routes, Topology
from stepsim.noc.traffic import Traffic, Whole
from stepsim.results import schema
from stepsim.typed import typed

if TYPE_CHECKING:
    import pyarrow as pa
else:
    from stepsim.arrow import pa

_TRANSFERS = (
    "transfer", "transfer_network", "source_place", "destination_place", "transfer_bytes",
    "transfer_flits", "hops", "ready_cycle", "start_cycle", "arrival_cycle", "alone_cycles",
    "contention_cycles",
)  # fmt: skip


@dataclass(frozen=True)
class NocRun:
    """Transfers in the order in which they were given, with their times in cycles.

    Times are of int64 with the model ``npe`` and with flits, else of float64.

    Attributes
    ----------
    model : by which it was simulated.
    topology : of the network.
    traffic : as given.
    routes : of the transfers.
    ready : first cycle in which each could start, unless it waits for another.
    start, arrival : first cycle on the network, and cycle of the end of each. [transfers]
    alone : cycles that each takes on an empty network. [transfers]
    waited : cycles of waiting for each link, source and sink; None where a model has no queues.
    """

    model: str
    topology: Topology = field(repr=False)
    traffic: Traffic = field(repr=False)
    routes: Routes = field(repr=False)
    ready: Whole = field(repr=False)
    start: NDArray[Any] = field(repr=False)
    arrival: NDArray[Any] = field(repr=False)
    alone: NDArray[Any] = field(repr=False)
    waited: NDArray[Any] | None = field(repr=False)

    @property
    def cycles(self) -> float:
        """The last arrival, counted from cycle 0."""
        return self.arrival.max(initial=0).item()  # type: ignore[no-any-return]

    @typed
    def cycles_of(self, first: int, last: int) -> float:
        """Cycles from ``first`` to the last arrival of transfers ready from ``first`` to ``last``.

        0 without such transfers.
        """
        chosen = (self.ready >= first) & (self.ready <= last)
        return max(0, self.arrival[chosen].max(initial=0).item() - first)  # type: ignore[no-any-return]

    @property
    def in_flits(self) -> bool:
        """Whether packets are flits, rather than transfers bytes."""
        return self.model == "link" and self.topology.network.flits is not None

    @cached_property
    def contention(self) -> NDArray[Any]:
        """Cycles by which each transfer arrives later than on an empty network. [transfers]

        They include its waiting for the transfers before it from the same source, and are counted
        from the end of what it states to wait for.
        """
        found: NDArray[Any] = self.arrival - self._released - self.alone
        return found

    @cached_property
    def _released(self) -> NDArray[Any]:
        """When each transfer could start, by what it waits for."""
        traffic = self.traffic
        found = self.ready.astype(self.arrival.dtype)
        owner = np.repeat(np.arange(len(traffic)), np.diff(traffic.after_begin))
        np.maximum.at(found, owner, self.arrival[traffic.after] + traffic.delay[owner])
        return found

    @cached_property
    def _flits(self) -> Whole:
        return flits_of(self.traffic, self.topology) if self.in_flits else self.traffic.flits

    def _load(self, amount: Whole) -> Whole:
        """The sum of amounts of transfers over every port. [ports]"""
        lengths = np.diff(self.routes.begin)
        found = np.zeros(self.topology.port_count, np.int64)
        np.add.at(found, self.routes.path, np.repeat(amount, lengths))
        return found

    @cached_property
    def port_bytes(self) -> Whole:
        """Bytes through every link, source and sink. [ports]"""
        return self._load(self.traffic.nbytes)

    @cached_property
    def port_flits(self) -> Whole:
        """Flits through every link, source and sink. [ports]"""
        return self._load(self._flits)

    @cached_property
    def share(self) -> NDArray[np.float64]:
        """Load of every link, source and sink, as a fraction of what it can take by the end."""
        if self.cycles == 0:
            return np.zeros(self.topology.port_count)
        if self.in_flits:
            return self.port_flits / self.cycles
        found: NDArray[np.float64] = self.port_bytes / (
            self.topology.rates().astype(np.float64) * self.cycles
        )
        return found

    def metrics(self) -> dict[str, float]:
        """Metrics over all transfers, by name, in cycles; percentiles are nearest ranks.

        ``latency`` is from being ready to the arrival, ``contention`` the part of it that an empty
        network does not have.
        """
        latency = np.sort(self.arrival - self._released)
        count = len(latency)
        links = self.share[: self.topology.link_count]
        return {
            "transfers": count,
            "cycles": self.cycles,
            "bytes": int(self.traffic.nbytes.sum()),
            "flits": int(self._flits.sum()),
            "bytes_times_hops": int((self.traffic.nbytes * self.routes.links).sum()),
            "hops_mean": float(self.routes.links.mean()) if count else 0.0,
            "latency_mean": float(latency.mean()) if count else 0.0,
            "latency_p50": latency[(count - 1) // 2].item() if count else 0,
            "latency_p99": latency[max(0, -(-99 * count // 100) - 1)].item() if count else 0,
            "latency_max": latency[-1].item() if count else 0,
            "contention_mean": float(self.contention.mean()) if count else 0.0,
            "busiest_link_share": float(links.max(initial=0)),
            "link_share_mean": float(links[self._links].mean()) if len(self._links) else 0.0,
        }

    @cached_property
    def _links(self) -> Whole:
        """Numbers of the links that lead somewhere."""
        return self.topology.links

    @property
    def busiest_link(self) -> str | None:
        """Name of the link with the largest share; None if no transfer takes a link."""
        shares = self.share[: self.topology.link_count]
        if not len(shares) or shares.max() == 0:
            return None
        return self.topology.name_of(int(shares.argmax()))

    @typed
    def ends_of(self, link: int) -> tuple[int, int]:
        """Places that a link leaves and reaches; a switch is the place after the last."""
        count = self.topology.link_count
        if not 0 <= link < count:
            raise ArgError(f"link: expected the number of a link, 0 to {count - 1}, found {link}")
        one, other = self.topology.places_of(np.array([link]))
        return int(one[0]), int(other[0])

    def table(self) -> pa.Table:
        """A row for every transfer, in Arrow; null is what is not known of it."""
        names = np.array([self.topology.place_name(i) for i in range(self.topology.places)])
        traffic = self.traffic
        in_bytes = pa.array(traffic.nbytes, mask=traffic.nbytes == 0)
        flits = self._flits
        values = {
            "transfer": np.arange(len(traffic)),
            "transfer_network": traffic.network,
            "source_place": names[traffic.source],
            "destination_place": names[traffic.destination],
            "transfer_bytes": in_bytes,
            "transfer_flits": pa.array(flits, mask=flits == 0),
            "hops": self.routes.links,
            "ready_cycle": self._released.astype(np.float64),
            "start_cycle": self.start.astype(np.float64),
            "arrival_cycle": self.arrival.astype(np.float64),
            "alone_cycles": self.alone.astype(np.float64),
            "contention_cycles": self.contention.astype(np.float64),
        }
        return pa.table(values, schema=schema("transfers", _TRANSFERS))

    def links(self) -> pa.Table:
        """A row for every link, in Arrow: its load, and the waits for it."""
        transfers = self._load(np.ones(len(self.traffic), np.int64))
        return link_table(
            self.topology, transfers, self.port_bytes, self.port_flits, self.share, self.waited
        )
