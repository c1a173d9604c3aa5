"""The links of a network as a table: what they carried, and the waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.noc.topology import Topology, Whole
from stepsim.results import schema

if TYPE_CHECKING:
    import pyarrow as pa
else:
    from stepsim.arrow import pa

_LINKS: Final = (
    "link", "link_name", "from_place", "to_place", "link_transfers", "link_bytes", "link_flits",
    "link_share", "link_wait_cycles",
)  # fmt: skip


def link_table(
    topology: Topology, transfers: Whole, nbytes: Whole, flits: Whole, share: NDArray[np.float64],
    waited: NDArray[Any] | None,
) -> pa.Table:  # fmt: skip
    """A row for every link, in Arrow, from numbers of every port; ``waited`` may be unknown."""
    links = topology.links
    one, other = topology.places_of(links)
    place = topology.place_name
    waits = pa.array(np.zeros(len(links)), mask=np.ones(len(links), np.bool_))
    if waited is not None:
        waits = pa.array(waited[links].astype(np.float64))
    values = {
        "link": links,
        "link_name": [topology.name_of(int(link)) for link in links],
        "from_place": [place(int(p)) for p in one],
        "to_place": [place(int(p)) for p in other],
        "link_transfers": transfers[links],
        "link_bytes": nbytes[links],
        "link_flits": flits[links],
        "link_share": share[links],
        "link_wait_cycles": waits,
    }
    return pa.table(values, schema=schema("network_links", _LINKS))
