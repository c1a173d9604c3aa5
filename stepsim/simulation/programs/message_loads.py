"""What crossed the links between the chips of a program in a run."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import message_loads
from stepsim.results import PASSED, Events, records_by
from stepsim.simulation.programs.link_use import LinkUse

if TYPE_CHECKING:
    from stepsim.simulation.programs.several_chips import Crossing
    from stepsim.simulation.recording.record import Record


class MessageLoads:
    """Messages and bytes over the links that routes take, and by route."""

    def __init__(
        self, crossing: Crossing, fifos: tuple[str, ...], scratch: NDArray[np.int64], cycles: int
    ) -> None:
        self._crossing, self._fifos, self._cycles = crossing, fifos, cycles
        self.of_links = message_loads(scratch, len(crossing.used), len(crossing.routes))

    @property
    def has_packets(self) -> bool:
        """Whether anything crossed a link."""
        return bool(self.of_links.messages.any())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the links in use."""
        return tuple(map(self._crossing.link_name, self._crossing.used.tolist()))

    def port_name(self, route: int, hop: int) -> str:
        """A link of a route in words."""
        return self.names[self._crossing.routes[route][1][hop]]

    def busiest(self) -> LinkUse | None:
        """The link that sent for most cycles; None where no message crossed a link.

        Of links that are as busy it is that with the most bytes, for short messages take no whole
        cycle, and of these the first one.
        """
        if not self.has_packets:
            return None
        loads, its = self.of_links, self._crossing
        link = int(np.lexsort((-its.used, loads.nbytes, loads.busy))[-1])
        sent = zip(its.routes, loads.route_bytes.tolist(), strict=True)
        through = [(nbytes, self._fifos[fifo]) for (fifo, path), nbytes in sent if link in path]
        used = [one for one in through if one[0]] or through
        streams = [fifo for _, fifo in sorted(used, key=lambda one: -one[0])]
        busy = int(loads.busy[link])
        # The latency of its messages may pass while others are sent, and counts as no work of it.
        return LinkUse(
            self.names[link], busy, "cycles", int(loads.nbytes[link]),
            tuple(dict.fromkeys(streams)), busy,
        )  # fmt: skip

    def added_to(self, events: Events, record: Record) -> Events:
        """The events of a recorded run with what links sent, and the chips of units."""
        lengths = [len(path) for _, path in self._crossing.routes]
        first = np.cumsum([0, *lengths])[:-1]
        links = np.array([link for _, path in self._crossing.routes for link in path], np.int64)
        streams = np.array([fifo for fifo, _ in self._crossing.routes], np.int64)
        sent = np.sort(record.flits, order="begin", kind="stable")
        # A limit may end the run before others are sent; short messages take no whole cycle.
        sent = sent[(sent["begin"] < events.cycles) & (sent["end"] > sent["begin"])]
        route = sent["route"]
        passed = records_by(
            "port", PASSED,
            port=links[first[route] + sent["hop"]], fifo=streams[route], begin=sent["begin"],
            end=np.minimum(sent["end"], events.cycles),
        )  # fmt: skip
        chips = tuple(self._crossing.unit_chips.tolist())
        return replace(events, ports=self.names, passed=passed, chips=chips)
