"""A placement that was found, with the loads of links it has and those of the row-major one."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np

from stepsim.arguments import counted
from stepsim.noc import Placement, Topology, Whole
from stepsim.placement.flows import Flows
from stepsim.placement.spans import by_nearest

_MOST_STREAMS: Final = 4


class FoundPlacement:
    """A placement found by `st.place`, and its loads.

    Attributes
    ----------
    placement : to be saved, or given to a run.
    row_major : the placement that it is compared with.
    seed, effort : of the search.
    """

    def __init__(
        self, placement: Placement, row_major: Placement, flows: Flows, seed: int, effort: float
    ) -> None:
        self.placement = placement
        self.row_major = row_major
        self.flows = flows
        self.seed = seed
        self.effort = effort
        self.topology = Topology(placement.network)

    @cached_property
    def link_bytes(self) -> Whole:
        """Bytes over every link. [links]"""
        return self.flows.loads(self.topology, places_of(self.placement, self.flows))

    @cached_property
    def row_major_link_bytes(self) -> Whole:
        """Bytes over every link with the row-major placement. [links]"""
        places = places_of(self.row_major, self.flows)
        return by_nearest(self.flows, self.topology, places).loads(self.topology, places)

    @property
    def busiest_link(self) -> str | None:
        """Name of the link with the most bytes; None if no stream takes a link."""
        loads = self.link_bytes
        return self.topology.name_of(int(loads.argmax())) if loads.any() else None

    @property
    def busiest_streams(self) -> list[tuple[str, int]]:
        """Streams that share the busiest link, with their bytes, the largest first."""
        if not self.link_bytes.any():
            return []
        links, owner = self.flows.routes(self.topology, places_of(self.placement, self.flows))
        own = owner[links == self.link_bytes.argmax()]
        rows = [(self._words(stream), int(self.flows.nbytes[stream])) for stream in own.tolist()]
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    def _words(self, stream: int) -> str:
        """A stream in words, that of a tree with the number of its readers."""
        tree, name = self.flows.tree[stream], self.flows.names[stream]
        readers = int((self.flows.tree == tree).sum())
        alone = tree < 0 or readers == 1
        return name if alone else f"{name} and {counted(readers - 1, 'more reader')}"

    def metrics(self) -> dict[str, Any]:
        """Busiest link in bytes and bytes times hops, of this placement and the row-major one."""
        return {
            "operators": len(self.placement.operators),
            "tiles": len({tile for tiles in self.placement.tiles.values() for tile in tiles}),
            "streams": len(self.flows.names),
            "stream_bytes": int(self.flows.nbytes.sum()),
            "busiest_link": self.busiest_link,
            "busiest_link_bytes": int(self.link_bytes.max(initial=0)),
            "hop_bytes": int(self.link_bytes.sum()),
            "row_major_busiest_link_bytes": int(self.row_major_link_bytes.max(initial=0)),
            "row_major_hop_bytes": int(self.row_major_link_bytes.sum()),
        }

    def __str__(self) -> str:
        found = self.metrics()
        text = (
            f"{found['operators']} operators on {found['tiles']} tiles: busiest link "
            f"{found['busiest_link_bytes']:,} bytes (row by row "
            f"{found['row_major_busiest_link_bytes']:,}), bytes x hops {found['hop_bytes']:,} "
            f"({found['row_major_hop_bytes']:,})"
        )
        streams = self.busiest_streams
        if not streams:
            return text
        listed = ", ".join(f"{name} ({nbytes:,} bytes)" for name, nbytes in streams[:_MOST_STREAMS])
        more = len(streams) - _MOST_STREAMS
        return f"{text}\nbusiest link {self.busiest_link}: {listed}" + (
            f" and {more} more" if more > 0 else ""
        )


def places_of(placement: Placement, flows: Flows) -> Whole:
    """Places of operators, then of memory ports."""
    parts = flows.part or [0] * len(flows.operators)
    operators = [
        placement.tiles[name][part] for name, part in zip(flows.operators, parts, strict=True)
    ]
    return np.array([*operators, *(placement.ports[name] for name in flows.ports)], np.int64)
