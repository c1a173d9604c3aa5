"""Traces of a run: recorded or synthetic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepsim.errors import TraceError
from stepsim.reproduce import FIGURES, points_of
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.points import Run
from stepsim.reproduce.runs import source_of
from stepsim.workloads import Data


def data_of(run: Run, folder: Path | None = None) -> Data:
    return Inputs(folder).data(run, source_of(run).load())


def test_synthetic_traces_fit_their_runs_and_stay_the_same() -> None:
    for run in {p.run for figure in FIGURES for p in points_of(figure)}:
        data, again = data_of(run), data_of(run)
        if run.routing:
            assert data.routing is not None
            assert data.routing.shape[0] == run.batch
            assert np.array_equal(data.routing, again.routing)
        if run.lengths:
            assert len(data.lengths) == run.batch
            assert np.array_equal(data.lengths, again.lengths)
            assert data.lengths.max() < run.parameters.get("max_length", 1 << 40)
        assert Inputs().missing(run) == []


def test_shorter_batches_are_prefixes() -> None:
    runs = {p.run.batch: p.run for p in points_of("15")}
    longest = data_of(runs[64]).lengths
    assert np.array_equal(data_of(runs[48]).lengths, longest[:48])


def test_recorded_lengths(tmp_path: Path) -> None:
    run = points_of("15")[0].run
    path = tmp_path / "traces" / run.lengths
    assert Inputs(tmp_path).missing(run) == [path]
    path.parent.mkdir(parents=True)
    np.save(path, np.arange(20))
    assert Inputs(tmp_path).missing(run) == []
    assert data_of(run, tmp_path).lengths.tolist() == list(range(16))
    with pytest.raises(TraceError, match=f"{path.name}: has 20 lengths, expected at least 32"):
        Inputs(tmp_path).lengths(replace(run, batch=32))
    np.save(path, np.full(16, 6464))
    with pytest.raises(TraceError, match=r"row 0: KV length 6464 is out of range.*0\.\.6463"):
        Inputs(tmp_path).lengths(run)


def test_recorded_routing_of_another_batch(tmp_path: Path) -> None:
    run = points_of("9")[0].run
    path = tmp_path / "traces" / run.routing
    path.parent.mkdir(parents=True)
    np.savez(path, data=np.tile([0, 1], (32, 1)))
    with pytest.raises(TraceError, match="the routing has 32 tokens, expected 64"):
        data_of(run, tmp_path)
