"""The page of services: its numbers are those of the tables and of the summary."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.report import service_document
from stepsim.serving import ServeResult
from tests.report.serving.conftest import PREEMPTING


@pytest.mark.slow
def test_distributions_have_the_percentiles_of_the_summary(service: ServeResult) -> None:
    (found,) = service_document({"a": service})["services"]
    for name in ("ttft", "tpot", "e2el"):
        curve = found["cdf"][name]
        at, share = np.array(curve["at"]), np.array(curve["share"])
        assert len(at) == curve["count"]
        assert share[-1] == 1
        for statistic, rank in (("median", 50), ("p90", 90), ("p99", 99)):
            expected = found["metrics"][f"{name}_{statistic}_ms"]
            assert float(np.percentile(at, rank)) == pytest.approx(expected)
            # The curve passes it: as many values are at most as large as the rank says.
            below = share[at <= expected + 1e-9]
            assert below[-1] == pytest.approx(rank / 100, abs=1.01 / len(at))
        assert at.mean() == pytest.approx(found["metrics"][f"{name}_mean_ms"])


@pytest.mark.slow
def test_sums_are_those_of_the_tables(service: ServeResult) -> None:
    (found,) = service_document({"a": service})["services"]
    length = pc.sum(service.steps["length_ns"]).as_py()
    parts = [found["all"], *found["replicas"]]
    assert len(parts) == 1 + (found["all"]["engines"] if found["all"]["engines"] > 1 else 0)
    assert sum(part["busy"] for part in parts[1:] or parts) == length
    for part in parts:
        assert sum(one["ns"] for one in part["kinds"]) == part["busy"]
        assert sum(one["ns"] for one in part["how"]) == part["busy"]
        assert sum(one["steps"] for one in part["kinds"]) == part["steps"]
        tokens = part["over_time"]["tokens"]
        for name in ("prefill", "decode"):
            expected = sum(one[name] for one in part["kinds"])
            assert sum(tokens[name]) == pytest.approx(expected, abs=1)
    json.dumps(found, allow_nan=False)


def test_blocks_held_stay_within_the_cache(preempting: ServeResult) -> None:
    (found,) = service_document({"a": preempting})["services"]
    held = found["all"]["curves"]["used_blocks"]["value"]
    assert found["blocks"] == PREEMPTING["num_blocks"] - 1
    assert max(held) == found["blocks"]
    assert held[-1] == 0
    summary = {name: one for name, one in preempting.summary.items() if name != "kv_blocks"}
    (found,) = service_document({"a": replace(preempting, summary=summary)})["services"]
    free = found["all"]["curves"]["free_blocks"]["value"]
    assert "used_blocks" not in found["all"]["curves"]
    assert min(free) == 0


def test_the_time_of_the_slow_request_adds_up(preempting: ServeResult) -> None:
    (found,) = service_document({"a": preempting})["services"]
    for time in found["why"]["times"]:
        assert sum(part["ns"] for part in time["parts"]) == pytest.approx(time["ns"])
    slowest = found["slowest"]["columns"]
    assert slowest["e2el_ns"] == sorted(slowest["e2el_ns"], reverse=True)
    assert found["slo"]["text"] == PREEMPTING["slo"]


@pytest.mark.slow
def test_services_are_compared(preempting: ServeResult, several: ServeResult) -> None:
    faster = st.serve({**PREEMPTING, "steps": "linear:500000,1000,10"})
    document = service_document({"a": preempting, "b": faster, "c": several})
    first, second = document["compared"]
    assert document["title"] == "a, b and c"
    assert list(first["changed"]) == ["settings.steps"]
    assert first["latencies"][0]["high"] < 0
    assert "other requests" in second["missing"]


def test_a_service_that_was_stopped_has_a_page() -> None:
    result = st.serve({**PREEMPTING, "max_steps": 3})
    (found,) = service_document({"a": result})["services"]
    assert found["status"] == "limit"
    assert found["why"] == {"missing": "no request was finished, so there is no latency to explain"}
    assert found["cdf"]["e2el"]["count"] == 0


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({}, "expected 1 to 8 services, found 0"),
        ({"a": 1}, "results must be a mapping to ServeResults"),
    ],
)
def test_what_is_no_service_is_refused(results: object, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        service_document(results)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_page_of_a_long_service_is_as_small(several: ServeResult) -> None:
    sizes = []
    for copies in (40, 120):
        long = _longer(several, copies)
        assert long.steps.num_rows == copies * several.steps.num_rows
        sizes.append(len(json.dumps(service_document({"a": long})["services"][0])))
    assert sizes[1] < min(1_000_000, 1.1 * sizes[0])


def _longer(service: ServeResult, copies: int) -> ServeResult:
    """A service so many times, one after another."""
    ends = pc.add(service.steps["start_ns"], service.steps["length_ns"])
    length = 1 + pc.max(ends).as_py()
    times = ("arrival_ns", "first_scheduled_ns", "first_token_ns", "finish_ns")
    return replace(
        service,
        steps=_repeated(service.steps, ("start_ns",), length, copies),
        requests=_repeated(service.requests, times, length, copies),
        summary={**service.summary, "objects": ["steps"]},
    )


def _repeated(table: pa.Table, times: tuple[str, ...], length: int, copies: int) -> pa.Table:
    """A table so many times, each later than the one before."""
    parts = []
    for copy in range(copies):
        part = table
        for name in times:
            place = part.schema.get_field_index(name)
            shifted = pc.add(part[name], pa.scalar(copy * length))
            part = part.set_column(place, part.schema.field(name), shifted)
        parts.append(part)
    return pa.concat_tables(parts).sort_by([("replica", "ascending"), (times[0], "ascending")])
