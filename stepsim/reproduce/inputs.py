"""Routing and KV lengths of a run: recorded ones from a folder, or synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.reproduce.points import Run
from stepsim.reproduce.settings import KV_TRACES
from stepsim.trace_io import read_kv_lengths, read_routing, synthetic_routing
from stepsim.trace_io.synthetic_kv import synthetic_kv_lengths
from stepsim.workloads import Data, Model

__all__ = ["Inputs"]

_SEED: Final = 0
_SPREADS: Final = {"low": 0.5, "med": 1.0, "high": 1.25}
_REQUESTS: Final = {t.file: t for t in KV_TRACES}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where traces come from.

    Attributes
    ----------
    folder : holds a folder ``traces``; None for synthetic traces.
    """

    folder: Path | None = None

    def missing(self, run: Run) -> list[Path]:
        """Trace files of a run that are not there."""
        if self.folder is None:
            return []
        names = [name for name in (run.routing, run.lengths) if name]
        return [path for path in map(self.path, names) if not path.is_file()]

    def path(self, name: str) -> Path:
        """File of a trace."""
        if self.folder is None:
            raise ValueError("synthetic inputs have no files")
        return self.folder / "traces" / name

    def data(self, run: Run) -> Data:
        """What a run is fed with.

        Raises
        ------
        TraceError : a trace cannot be used.
        """
        return Data.of(
            routing=self.routing(run) if run.routing else None,
            kv_lengths=self.lengths(run) if run.lengths else None,
            rows=run.batch,
        )

    def routing(self, run: Run) -> npt.NDArray[Any]:
        """Expert choices ``[batch, K]``.

        Raises
        ------
        TraceError : the file is unreadable or does not fit the model or the batch.
        """
        shape = Model.parse(run.model).moe
        if self.folder is None:
            table = synthetic_routing(run.batch, shape.experts, shape.active, seed=_SEED)
            return table.experts
        path = self.path(run.routing)
        table = read_routing(path, experts=shape.experts, k=shape.active)
        if table.tokens != run.batch:
            raise TraceError(
                f"{path}: the routing has {table.tokens} tokens, expected the {run.batch} of the "
                "published runs; put the file of that batch in its place"
            )
        return table.experts

    def lengths(self, run: Run) -> npt.NDArray[np.int64]:
        """KV-cache lengths ``[batch]``: the first ones of the window.

        Raises
        ------
        TraceError : the file is unreadable, too short, or has a request that is too long.
        """
        longest = None if run.max_length is None else run.max_length - 1
        if self.folder is None:
            trace = _REQUESTS[run.lengths]
            every = synthetic_kv_lengths(
                trace.requests, seed=_SEED + trace.first, spread=_SPREADS[trace.kv_class],
                maximum=longest,
            )  # fmt: skip
        else:
            path = self.path(run.lengths)
            every = read_kv_lengths(path, maximum=longest)
            if len(every) < run.batch:
                raise TraceError(
                    f"{path}: has {len(every)} lengths, expected at least {run.batch}; put the "
                    "window of the published runs in its place"
                )
        return every[: run.batch]
