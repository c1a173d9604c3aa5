"""Routing and KV lengths of a run: recorded ones from a folder, or synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stepsim.data import locate
from stepsim.errors import TraceError
from stepsim.reproduce.points import Run
from stepsim.reproduce.settings import KV_TRACES
from stepsim.trace_io import read_kv_lengths, read_routing, synthetic_kv_lengths, synthetic_routing
from stepsim.workloads import Data, Workload

_SEED: Final = 0
_SPREADS: Final = {"low": 0.5, "med": 1.0, "high": 1.25}
_REQUESTS: Final = {t.file: t for t in KV_TRACES}


def own_trace(run: Run, name: str) -> Path:
    """The file of a trace of a user's run: a path from the folder of the figure, or a data set.

    Raises
    ------
    TraceError : there is no such file, or the data set has not been fetched.
    """
    near = Path(run.folder, name)
    found = near if near.is_file() else locate(name)
    if not found.is_file():
        raise TraceError(f"{near}: there is no such trace; name a file or a data set")
    return found


@dataclass(frozen=True, slots=True)
class Inputs:
    """The source of the traces of the paper's runs; a user's runs name their own.

    Attributes
    ----------
    folder : contains a folder ``traces``; None for synthetic traces.
    """

    folder: Path | None = None

    def missing(self, run: Run) -> list[Path]:
        """Recorded files of a run that are missing."""
        if self.folder is None or run.folder:
            return []
        names = [name for name in (run.routing, run.lengths) if name]
        return [path for path in map(self.path, names) if not path.is_file()]

    def path(self, name: str) -> Path:
        """File of a recorded trace."""
        if self.folder is None:
            raise ValueError("synthetic inputs have no files")
        return self.folder / "traces" / name

    def data(self, run: Run, workload: type[Workload]) -> Data:
        """The inputs of a run.

        Raises
        ------
        TraceError : a trace cannot be used.
        ArgError : there are more or fewer tokens than requests.
        """
        lengths = self.lengths(run) if run.lengths else None
        return Data.of(
            routing=self.routing(run, workload) if run.routing else None,
            kv_lengths=None if lengths is None else lengths[: run.batch],
            rows=run.batch or None,
            # The published settings of a run depend on the batch, not on its trace.
            whole=None if lengths is None or not run.folder else len(lengths),
        )

    def routing(self, run: Run, workload: type[Workload]) -> npt.NDArray[Any]:
        """Expert choices ``[batch, K]``.

        Raises
        ------
        TraceError : the file is unreadable or does not fit the model or the batch.
        """
        experts, k = workload.routing_shape(run.parameters) or (None, None)
        if run.folder:
            return read_routing(
                own_trace(run, run.routing), experts=experts, k=k, layer=run.layer, step=run.step,
                tokens=run.batch, window=None if run.batch is None else 0,
            ).experts  # fmt: skip
        # The paper's workloads define their experts, and its runs their batch.
        assert experts is not None
        assert k is not None
        assert run.batch is not None
        if self.folder is None:
            return _synthetic_routing(run.batch, experts, k)
        path = self.path(run.routing)
        table = read_routing(path, experts=experts, k=k)
        if table.tokens != run.batch:
            raise TraceError(
                f"{path}: the routing has {table.tokens} tokens, expected {run.batch} as in the "
                "published runs; replace the file by that of this batch"
            )
        return table.experts

    def lengths(self, run: Run) -> npt.NDArray[np.int64]:
        """KV-cache lengths of all requests of the window; a run serves the first ones.

        Raises
        ------
        TraceError : the file is unreadable, too short, or has a request that is too long.
        """
        most = run.parameters.get("max_length")
        longest = None if most is None else most - 1
        if self.folder is None and not run.folder:
            return _synthetic_lengths(run.lengths, longest)
        path = own_trace(run, run.lengths) if run.folder else self.path(run.lengths)
        every = read_kv_lengths(path, maximum=longest)
        if len(every) < (run.batch or 0):
            raise TraceError(
                f"{path}: has {len(every)} lengths, expected at least {run.batch}; put the "
                "right file in its place, or choose a smaller batch"
            )
        return every


# Runs of a figure share their traces.
@cache
def _synthetic_routing(tokens: int, experts: int, k: int) -> npt.NDArray[Any]:
    return synthetic_routing(tokens, experts, k, seed=_SEED).experts


@cache
def _synthetic_lengths(name: str, longest: int | None) -> npt.NDArray[np.int64]:
    trace = _REQUESTS[name]
    return synthetic_kv_lengths(
        trace.requests, seed=_SEED + trace.first, spread=_SPREADS[trace.kv_class], maximum=longest
    )
