"""Calls that once raised errors of Python or of libraries, or took all memory."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.dram import splitmix
from stepsim.errors import StepSimError
from tests.boundary import instances as some

CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "compute of a variant": (
        lambda x: st.Variant("v", compute={"map": "64"}),
        "compute['map'] must be a positive number",
    ),
    "depth of a variant": (
        lambda x: st.Variant("v", fifo_depths={"x": 2.5}),
        "fifo_depths['x'] must be an int",
    ),
    "dispatch of a variant": (
        lambda x: st.Variant("v", par_dispatch={"x": x}),
        "par_dispatch['x'] must be an int",
    ),
    "percentile": (lambda x: some.ensemble().percentile(101), "from 0 to 100"),
    "streams of a timeline": (
        lambda x: st.report.write_perfetto(some.result(), "t.pftrace", streams=x),
        "streams must be a list of strings, found None",
    ),
    "limit of a timeline": (
        lambda x: st.report.write_perfetto(
            some.result(),
            "t.pftrace",
            limit_bytes=float("nan"),  # type: ignore[arg-type]
        ),
        "limit_bytes must be an int, found nan",
    ),
    "place of events": (
        lambda x: st.results.write_events(some.result(), x),
        "path must be a string or a path, found None",
    ),
    "result of events": (
        lambda x: st.results.write_events(x, "events.parquet"),
        "result must be a Result, found None",
    ),
    "place of a plan": (
        lambda x: st.design.Plan.load(3),  # type: ignore[arg-type]
        "path must be a string or a path, found 3",
    ),
    "lanes of a design": (
        lambda x: st.design.designed(
            some.untiled(),
            st.design.Choices(budget=1 << 24, order="reductions_innermost"),
            lanes=type,  # type: ignore[arg-type]
        ),
        "expected a whole number from 1, found",
    ),
    "plans of a request": (
        lambda x: st.design.request(x, x, 1),
        "prefill must be a Plan, found None",
    ),
    "milliseconds": (
        lambda x: some.machine().milliseconds("1"),  # type: ignore[arg-type]
        "cycles must be a number, found '1'",
    ),
    "tables of positions": (
        lambda x: st.nn.rope_tables(2**62, 4),
        "positions must be a number from 1 to 2**28",
    ),
    "lists of addresses": (
        lambda x: st.dram.simulate([1, [2]]),
        "addresses: expected an array of whole numbers, found [1, [2]]",
    ),
    "places of random numbers": (
        lambda x: splitmix(1, Decimal("1e999999999")),  # type: ignore[arg-type]
        "places: expected an array of whole numbers",
    ),
    "seed of random numbers": (
        lambda x: splitmix("1", [0]),  # type: ignore[arg-type]
        "seed must be an int",
    ),
    "addresses of 17 GB": (
        lambda x: st.dram.sequential(2**31 - 1, 1),
        "count must be an int from 0 to 2**27, found 2147483647 (an address takes 8 bytes",
    ),
    "tiles of many addresses": (
        lambda x: st.dram.tiles(2**20, 64, 64, 64, 64, 1),
        "the number of addresses must be an int from 0 to 2**27",
    ),
    "number of weight rows": (
        lambda x: st.itensor.fork(some.itensor(), 2**62),
        "copies, expected 1 to 1,000,000",
    ),
    "loops of a stream": (
        lambda x: st.itensor.ITensor.of_loops((4,), x, (2,), "f32"),
        "loops must be a list",
    ),
    "parts of a stream": (
        lambda x: st.itensor.ITensor((2,), (2,), (2,), x, "f32"),
        "map: expected an AffineMap, found None",
    ),
    "weights of a placement": (
        lambda x: st.design.place_on_dies(
            some.dataflow(), some.machine().device, traffic_weight=2.0**62
        ),
        "traffic_weight must be from 0 to 1,000,000",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_was_not_checked_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, text = CASES[case]
    with pytest.raises(StepSimError) as caught:
        call(None)
    assert text in str(caught.value)


def test_patterns_at_their_limits() -> None:
    assert st.dram.sequential(3, 64).tolist() == [0, 64, 128]
    with pytest.raises(StepSimError, match="the address after the last must be an int"):
        st.dram.sequential(2**20, 2**61)
    assert splitmix(-1, np.array([0], np.uint64)).dtype == np.uint64
