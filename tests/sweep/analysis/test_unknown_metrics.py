"""Metrics that runs of a sweep lack: the message names the cause that applies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import SweepError
from stepsim.sweep import best, compare, run_sweep
from stepsim.sweep.analysis import design_costs

FILE = """
import stepsim as st

def undecided(tiles: int = 2) -> st.Program:
    with st.Program("undecided", compute_bw=64) as program:
        lengths, source = st.eager_merge([st.metadata([1, 2]), st.metadata([2, 1])])
        source.consume()
        index = st.metadata([0, 1, 2, 3])
        addresses = index.flat_map(st.fn.cache_read_addresses(tiles), lengths.assume_shape(4))
        keys = st.random_load(addresses, st.spec(16, 4), tile=(1, 4))
        keys.accum(st.fn.pack_rows, 1).map(st.fn.exp).consume()
    return program
"""


def swept(folder: Path, **changes: Any) -> Path:
    (folder / "own.py").write_text(FILE)
    spec = {"workload": f"{folder / 'own.py'}:undecided", "grid": {"tiles": [2, 4]}}
    run_sweep({**spec, "counting": "executed", **changes}, folder / "out")
    return folder / "out"


SIZES = "the workload states these with Built.symbols"


def test_sizes_that_a_run_decides(tmp_path: Path) -> None:
    out = swept(tmp_path)
    with pytest.raises(SweepError, match=f"none of 2 runs has onchip_bytes; .*{SIZES}") as caught:
        design_costs(out, "onchip_bytes", "cycles")
    assert "metrics" not in str(caught.value).partition(";")[2]
    with pytest.raises(SweepError, match=rf"run \w+ has no onchip_bytes; .*{SIZES}"):
        best(out, "onchip_bytes")
    with pytest.raises(SweepError, match=f"none of 2 runs has onchip_bytes; .*{SIZES}"):
        compare(out, out, "onchip_bytes")


def test_metrics_that_were_not_kept(tmp_path: Path) -> None:
    out = swept(tmp_path, metrics=["cycles"])
    with pytest.raises(SweepError, match=r"run \w+ has no flops; add them to the key 'metrics'"):
        best(out, "flops")


def test_tokens_and_peaks(tmp_path: Path) -> None:
    out = swept(tmp_path, machine="sda-1024-energy")
    with pytest.raises(SweepError, match=r"run \w+ has no tokens_per_second; .* Built.tokens"):
        best(out, "tokens_per_second")
