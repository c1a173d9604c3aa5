"""What is simulated: the settings of a run, and the points of figures that show it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

__all__ = ["Point", "Run", "RunKey"]


class RunKey(NamedTuple):
    """What tells published runs apart, in the words of their table.

    ``tile`` counts rows; attention has none. ``fifo_depth`` is None for decoders, whose depth is
    not published.
    """

    model: str
    batch: int
    trace: str
    strategy: str
    tile: str
    tile_inter: int | None
    regions: int | None
    fifo_depth: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """Settings of one simulation. Equal runs are simulated once.

    Attributes
    ----------
    workload : ``swiglu``, ``moe``, ``attention`` or ``decoder``.
    batch : rows or requests.
    tile : rows per tile, or ``dynamic``; unused by attention.
    tile_inter : columns per tile of the inner dimension.
    regions : regions that share the experts; of attention, the regions asked for.
    strategy : how attention shares its requests, or the variant of a decoder.
    routing, lengths : traces of expert choices and of KV-cache lengths, below the folder of traces.
        Of the lengths, the first ``batch`` are used.
    max_length : tokens reserved for each request, None for the default of the published batch.
    fifo_depth : capacity of each queue in tokens.
    """

    workload: str
    model: str
    batch: int
    tile: int | str = ""
    tile_inter: int | None = None
    regions: int | None = None
    strategy: str = ""
    routing: str = ""
    lengths: str = ""
    max_length: int | None = None
    fifo_depth: int | None = None
    machine: str = "sda-1024"
    closure_slack: int = 0

    @property
    def key(self) -> RunKey:
        """Identity among the published points, which know neither slack nor reserved tokens."""
        decoder = self.workload == "decoder"
        return RunKey(
            model=self.model,
            batch=self.batch,
            trace="" if decoder else self.routing or self.lengths,
            strategy=self.strategy,
            tile=str(self.tile),
            tile_inter=self.tile_inter,
            regions=self.regions if self.workload == "moe" else None,
            fifo_depth=None if decoder else self.fifo_depth,
        )

    @property
    def given(self) -> dict[str, Any]:
        """Parameters of the workload that published settings do not set."""
        names = {
            "swiglu": ("tile", "tile_inter"),
            "moe": ("model", "tile", "regions"),
            "attention": ("model", "strategy", "max_length"),
        }
        if self.workload == "decoder":
            return {"model": self.model, "variant": self.strategy}
        given = {name: getattr(self, name) for name in (*names[self.workload], "fifo_depth")}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def weight(self) -> float:
        """Rough cost, to start long runs first: units to lower, and tiles to simulate."""
        if self.workload in ("swiglu", "attention"):
            return 1 + self.batch / 16
        experts = 16 if "mixtral" in self.model else 128
        height = 64 if isinstance(self.tile, str) else self.tile
        return experts * (4 if self.workload == "decoder" else 2) + 8 * self.batch / height


@dataclass(frozen=True, slots=True)
class Point:
    """A run as a point of a figure.

    Attributes
    ----------
    point_id : unique name; figures that show the same run share it.
    series : what the point belongs to in the figure, e.g. ``static`` or ``coarse``.
    kv_class : spread of the KV lengths: low, med or high.
    """

    figure: str
    point_id: str
    series: str
    run: Run
    kv_class: str = ""

    @property
    def trace_name(self) -> str:
        """The trace in short: file name without folder and suffix."""
        return PurePosixPath(self.run.routing or self.run.lengths).stem
