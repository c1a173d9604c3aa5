"""The number of active units of an operator over time, from their first token to their last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stepsim.report.html.groups import Groups

_BINS = 160
_GROUPS = 40


def activity(units: pa.Table, groups: Groups, cycles: int) -> dict[str, Any]:
    """The share of each operator's units that are between their first and their last token.

    Returns
    -------
    ``width``: cycles of a bin; ``group``: numbers of operators, those that begin earliest first;
    ``share``: for each, its share in every bin; ``left_out``: the number of operators not shown,
    which are those active for the shortest time.
    """
    begin = units["before"].to_numpy().astype(float)
    end = np.maximum(cycles - units["after"].to_numpy(), begin)
    width = max(1, -(-cycles // _BINS))
    edges = np.arange(0, max(cycles, 1), width, dtype=float)
    total = [float((end - begin)[list(own)].sum()) for own in groups.members]
    active = [group for group, sum_ in enumerate(total) if sum_ > 0]
    kept = sorted(active, key=lambda group: -total[group])[:_GROUPS]
    kept.sort(key=lambda group: (begin[list(groups.members[group])].min(), group))
    rows = []
    for group in kept:
        own = list(groups.members[group])
        shared = np.minimum(end[own, None], edges + width) - np.maximum(begin[own, None], edges)
        rows.append(np.round(np.clip(shared, 0, None).mean(axis=0) / width, 4).tolist())
    return {
        "width": width,
        "group": kept,
        "share": rows,
        "left_out": len(active) - len(kept),
    }
