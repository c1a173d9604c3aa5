"""What the chips of a program did in a run, and what crossed the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import counted
from stepsim.arrow import pa
from stepsim.kernels import MEMORY_TAIL
from stepsim.results import named_table, sums_by, utilization
from stepsim.simulation.outcome.fit import Fit
from stepsim.simulation.outcome.totals import peak_bytes

if TYPE_CHECKING:
    from stepsim.graph import Bindings
    from stepsim.simulation.programs.message_loads import MessageLoads
    from stepsim.simulation.programs.prepared import Prepared
    from stepsim.simulation.running.image_run import ImageRun


class ChipLoads:
    """The loads of a run of a program on several chips."""

    def __init__(
        self, prepared: Prepared, messages: MessageLoads, done: ImageRun, indices: Bindings
    ) -> None:
        units = done.execution.units
        assert prepared.crossing is not None  # the program is on several chips
        self._crossing, self._messages = prepared.crossing, messages
        self._cycles = done.totals.cycles
        self._status = done.totals.status
        self._ends = units["clk"] + MEMORY_TAIL * (units["port"] >= 0)
        self._offchip, self._flops = units["traffic"].copy(), units["flops"].copy()
        one = prepared.timing.chips
        whole = peak_bytes(self._cycles, prepared.timing)
        self._peak = None if whole is None else whole // one
        self._loads = messages.of_links
        self._fit = Fit(prepared)
        self._symbols: Mapping[Any, Any] = {**prepared.sizes, **indices}
        self._chip_of = {unit.name: unit.chip for unit in prepared.wiring.units}

    def __getstate__(self) -> dict[str, Any]:
        # The program and its image have megabytes.
        return {"_links": self._links, "_chips": self._chips, "summary": self.summary}

    def links(self) -> pa.Table:
        """A row for every link between chips, in Arrow; see `Result.links`."""
        return self._links

    def chips(self) -> pa.Table:
        """A row for every chip of the machine, in Arrow; see `Result.chips`."""
        return self._chips

    @cached_property
    def _links(self) -> pa.Table:
        links, loads = self._crossing.links, self._loads
        busy = self._of_links(loads.busy)
        return named_table(
            "chip_links",
            {
                "from_device": links.begin,
                "to_device": links.end,
                "link_messages": self._of_links(loads.messages),
                "link_bytes": self._of_links(loads.nbytes),
                "link_busy_cycles": busy,
                "link_waited_cycles": self._of_links(loads.waited),
                "link_utilization": busy / max(self._cycles, 1),
            },
        )

    @cached_property
    def _chips(self) -> pa.Table:
        count = self._crossing.links.chips.total
        chip = self._crossing.unit_chips
        ends = np.zeros(count, np.int64)
        np.maximum.at(ends, chip, self._ends)
        offchip, flops = (sums_by(count, chip, each) for each in (self._offchip, self._flops))
        bandwidth = self._by_chip(self._fit.bandwidths)
        held = self._fit.held(self._symbols)
        onchip = [None] * count if held is None else self._by_chip(held).tolist()
        source, to = self._ends_of_routes()
        loads = self._loads
        return named_table(
            "program_chips",
            {
                "chip": np.arange(count),
                "chip_cycles": ends,
                "offchip_bytes": offchip,
                "onchip_bytes": onchip,
                "flops": flops,
                "chip_bandwidth_utilization": self._shares(offchip, self._peak),
                "chip_compute_utilization": self._shares(flops, bandwidth * self._cycles),
                "sent_messages": sums_by(count, source, loads.route_messages),
                "sent_bytes": sums_by(count, source, loads.route_bytes),
                "received_messages": sums_by(count, to, loads.route_messages),
                "received_bytes": sums_by(count, to, loads.route_bytes),
            },
        )

    @cached_property
    def summary(self) -> str:
        """A sentence on the chips and the busiest link."""
        chips = counted(len(self._crossing.chips), "chip")
        link = self._messages.busiest()
        if link is None or not link.nbytes:
            return f"on {chips}, with nothing sent between them"
        return f"on {chips}; {link.sentence(self._cycles)}"

    def _of_links(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of all links of the machine, from those of the links in use."""
        found = np.zeros(self._crossing.links.count, np.int64)
        found[self._crossing.used] = amounts
        return found

    def _by_chip(self, amounts: Mapping[str, int]) -> NDArray[np.int64]:
        """Sums by chip of numbers by the names of operators."""
        chips = [self._chip_of[name] for name in amounts if name in self._chip_of]
        values = [value for name, value in amounts.items() if name in self._chip_of]
        count = self._crossing.links.chips.total
        return sums_by(count, np.array(chips, np.int64), np.array(values, np.int64))

    def _ends_of_routes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The chips at both ends of every route."""
        # Carriers come last, two for each route: that which sends, and that which receives.
        chips = self._crossing.unit_chips
        both = chips[len(chips) - 2 * len(self._crossing.routes) :].reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def _shares(self, amounts: NDArray[np.int64], room: Any) -> list[float | None]:
        rooms = [room] * len(amounts) if room is None or np.ndim(room) == 0 else room.tolist()
        return [
            utilization(self._status, amount, most)
            for amount, most in zip(amounts.tolist(), rooms, strict=True)
        ]
