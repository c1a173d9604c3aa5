"""A picture of services: distributions of latencies, and load and KV blocks over time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.report.saving import save_picture
from stepsim.report.serving.document import check_services
from stepsim.report.serving.series import (
    LATENCIES,
    NAMES,
    EngineSteps,
    engines_of,
    latencies_ms,
    slo_of,
    span_of,
)
from stepsim.report.serving.thinned import by_column, by_rank, total
from stepsim.report.style import INK, OPEN, PALETTE, logarithmic, panels, whole_numbers
from stepsim.serving import ServeResult
from stepsim.typed import typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 1000
_WIDE = 30.0
"""Ratio of latencies, limits of the SLO included, from which on their axis is logarithmic."""


@typed
def draw_services(results: Mapping[str, ServeResult], title: str, path: str | Path) -> None:
    """Draw how latencies are distributed, with the limits of the SLO, and running and waiting
    requests and KV blocks over time, all replicas together.

    The suffix of ``path`` chooses the format: .png, .svg or .pdf. The file is written completely or
    not at all.

    Parameters
    ----------
    results : services by the name that the picture gives them.

    Raises
    ------
    ArgError : there is no service, or there are more than there are colors.
    OutputError : the suffix is not supported, matplotlib is missing, or the file cannot be written.
    """
    check_services(results, len(PALETTE))
    texts = {"title": title} | {f"name {n}": name for n, name in enumerate(results)}
    save_picture(partial(_services, results, title), path, OPEN, texts=texts)


def _services(results: Mapping[str, ServeResult], title: str) -> Figure:
    figure, axes = panels(3, 2, height=2.8, title="")
    figure.suptitle(title, fontsize=11, x=0.01, ha="left", parse_math=False)
    for where, name in zip(axes, LATENCIES, strict=False):
        _distribution(where, name, results)
    lines = {name: _Lines(result) for name, result in results.items()}
    longest = max(one.seconds for one in lines.values())
    scale, unit = (1.0, "s") if longest >= 1 else (1e3, "ms")
    blocks = "KV blocks held" if all(one.blocks for one in lines.values()) else "free KV blocks"
    for where, what in zip(axes[3:], ("running", "waiting", blocks), strict=True):
        for color, one in zip(PALETTE, lines.values(), strict=False):
            at, values = one.of(what)
            where.step(at * scale, values, where="post", color=color, linewidth=1.2)
        where.set_xlabel(f"time ({unit})")
        where.set_ylabel(what if "blocks" in what else f"requests {what}")
        where.set_ylim(bottom=0)
        whole_numbers(where)
        where.set_xlim(0, longest * scale)
    if len(results) > 1:
        handles = [axes[0].lines[number] for number in range(len(results))]
        figure.legend(handles, list(results), loc="outside lower center", ncols=len(results))
    return figure


def _distribution(axes: Axes, name: str, results: Mapping[str, ServeResult]) -> None:
    every = [latencies_ms(result, name) for result in results.values()]
    for color, values in zip(PALETTE, every, strict=False):
        ranks = by_rank(len(values))
        shares = 100 * (ranks + 1) / max(len(values), 1)
        axes.step(values[ranks], shares, where="post", color=color, linewidth=1.6)
    known = np.concatenate(every)
    found = [slo.limits.get(name) for slo in map(slo_of, results.values()) if slo is not None]
    limits = sorted({limit for limit in found if limit is not None})
    ends = [*known[[known.argmin(), known.argmax()]].tolist(), *limits] if len(known) else [0.0]
    if min(ends) > 0 and max(ends) > _WIDE * min(ends):
        logarithmic(axes, "x", ends)
    for limit in limits:
        axes.axvline(limit, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"SLO {limit:g} ms", (limit, 3), xytext=(-3, 0), textcoords="offset points",
            ha="right", rotation=90, fontsize=7.5,
        )  # fmt: skip
    axes.set_xlabel(f"{NAMES[name]}, ms")
    axes.set_ylabel("requests (%)")
    axes.set_ylim(0, 102)


class _Lines:
    """What a service did over time, in seconds since its beginning."""

    def __init__(self, result: ServeResult) -> None:
        self._engines = engines_of(result)
        self._first, self._after = span_of(result)
        self.blocks: int | None = result.summary.get("kv_blocks")
        self.seconds = (self._after - self._first) / 1e9

    def of(self, what: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """The points of a line."""
        at, values = total([self._line(one, what) for one in self._engines])
        kept = by_column(at, values, _COLUMNS, self._first, self._after)
        return (at[kept] - self._first) / 1e9, values[kept]

    def _line(self, one: EngineSteps, what: str) -> tuple[NDArray[Any], NDArray[Any]]:
        if what == "free KV blocks":
            return one.start, one.free
        if what == "KV blocks held" and self.blocks is not None:
            return one.line(self.blocks - one.free, 0)
        return one.line(one.running if what == "running" else one.waiting, 0)
