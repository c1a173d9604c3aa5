"""Rates that are found, what-ifs and comparisons."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from stepsim.errors import ArgError, ServingError, StepSimError
from stepsim.serving import (
    ServeResult,
    compare_services,
    find_rate,
    serve,
    what_if_served,
    why_served,
)
from stepsim.serving.answers.again import spec_of
from stepsim.serving.service.folder import FILES
from stepsim.serving.service.serve import Service
from stepsim.workloads import Model
from tests.serving.service.doubles import PerToken, three

_FIXED: dict[str, Any] = {
    "source": "fixed:count=400,prompt_tokens=10,output_tokens=1",
    "num_blocks": 9,
    "max_num_seqs": 1,
    "steps": "linear:1e6",
    "seed": 3,
}
"""One request at a time, each for 1 ms: a queue of which every time is known."""


def _queue(arrival: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ends of requests that take 1 ms each, one after another."""
    ends = np.zeros(len(arrival), np.int64)
    now = 0
    for k, when in enumerate(arrival.tolist()):
        now = max(now, when) + 1_000_000
        ends[k] = now
    return ends


def test_found_rate_is_that_of_the_queue() -> None:
    found = find_rate(**_FIXED, slo="ttft=5ms,share=0.9", tolerance=0.01)
    assert found.too_much / found.rate <= 1.01
    for rate, is_met in ((found.rate, True), (found.too_much, False)):
        arrival = serve(**_FIXED, rate=rate).requests["arrival_ns"].to_numpy()
        share = np.mean(_queue(arrival) - arrival <= 5_000_000)
        assert (share >= 0.9) == is_met
    assert found.best.metrics["good_share"] >= 0.9
    assert [trial.rate for trial in found.trials] == sorted(trial.rate for trial in found.trials)


def test_found_rate_leaves_a_folder(tmp_path: Path) -> None:
    found = find_rate(**_FIXED, slo="ttft=5ms,share=0.9", tolerance=0.5, out=tmp_path / "a")
    assert ServeResult.read(tmp_path / "a").requests.equals(found.best.requests)
    assert json.loads((tmp_path / "a" / "rates.json").read_text())["rate"] == found.rate


@pytest.mark.slow
def test_a_killed_search_serves_the_other_rates_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {**_FIXED, "slo": "ttft=5ms,share=0.9", "tolerance": 0.1}
    whole = find_rate(**given, out=tmp_path / "whole")
    served: list[float] = []
    run = Service.run

    def counted(self: Service, *more: Any, **named: Any) -> ServeResult:
        served.append(self.spec.choices.rate or 0.0)
        if len(served) == 4:
            raise KeyboardInterrupt
        return run(self, *more, **named)

    monkeypatch.setattr(Service, "run", counted)
    with pytest.raises(KeyboardInterrupt):
        find_rate(**given, out=tmp_path / "killed")
    with pytest.raises(ServingError, match="continue it with --resume"):
        find_rate(**given, out=tmp_path / "killed")
    with pytest.raises(ServingError, match=r"differs in .*settings"):
        find_rate(**given | {"seed": 4}, out=tmp_path / "killed", resume=True)
    resumed = find_rate(**given, out=tmp_path / "killed", resume=True)
    # The rate at which it was killed is served again, none of the three before it.
    assert len(served) == len(whole.trials) + 1
    assert len(set(served)) == len(whole.trials)
    assert resumed.to_dict() == whole.to_dict()
    for name in (*FILES, "rates.json"):
        killed, other = (tmp_path / folder / name for folder in ("killed", "whole"))
        assert killed.read_bytes() == other.read_bytes(), name


def test_a_search_is_resumed_where_there_is_one(tmp_path: Path) -> None:
    given: dict[str, Any] = {**_FIXED, "slo": "ttft=5ms,share=0.9", "resume": True}
    with pytest.raises(ArgError, match="resume: has no effect without out"):
        find_rate(**given)
    with pytest.raises(ServingError, match="has no search to resume"):
        find_rate(**given, out=tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "slo: missing"),
        ({"slo": "ttft=1ms", "tolerance": 0.0}, "tolerance: expected"),
        ({"slo": "ttft=0.5ms"}, "no rate down to"),
        ({"slo": "ttft=900s"}, "every rate up to"),
        ({"slo": "ttft=5ms", "arrivals": "at-once"}, "rate: has no effect"),
    ],
)
def test_rates_that_are_not_found(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(StepSimError, match=message):
        find_rate(**(_FIXED | parameters))


@pytest.mark.slow
def test_compared_services_differ_by_the_change() -> None:
    one = serve(**_FIXED, rate=100.0)
    found = compare_services(one, serve(**(_FIXED | {"steps": "linear:1.5e6"}), rate=100.0))
    assert found.changed == {"settings.steps": ("linear:1e6", "linear:1.5e6")}
    mean = next(diff for diff in found.latencies if diff.name == "ttft_mean_ms")
    assert 0.5 <= mean.low <= mean.change <= mean.high < 1
    assert found.paired == 400


@pytest.mark.slow
def test_equal_services_have_no_difference() -> None:
    one = serve(**_FIXED, rate=100.0)
    found = compare_services(one, serve(**_FIXED, rate=100.0))
    assert not found.changed
    assert all((diff.low, diff.high) == (0, 0) for diff in found.latencies)


@pytest.mark.slow
def test_goodput_is_compared_where_one_of_the_services_has_it() -> None:
    plain, judged = serve(**_FIXED, rate=100.0), serve(**_FIXED, rate=100.0, slo="ttft=1s")
    assert "good" not in str(compare_services(plain, plain))
    assert compare_services(plain, judged).metrics["good_share"] == (None, 1.0)


def _with_stated(result: ServeResult, intervals: dict[str, tuple[float, float]]) -> ServeResult:
    """A service that states errors of its metrics."""
    return replace(result, summary=result.summary | {"errors": {"intervals": intervals}})


@pytest.mark.slow
def test_differences_include_the_stated_errors_of_estimated_steps() -> None:
    one = serve(**_FIXED, rate=100.0)
    mean = one.metrics["ttft_mean_ms"]
    # Exact steps may make A longer by up to a fourth, and B shorter by a fifth.
    a = _with_stated(one, {"ttft_mean_ms": (-0.2, -0.1)})
    b = _with_stated(one, {"ttft_mean_ms": (-0.2, 0.25)})
    plain, wide, both = (
        {diff.name: diff for diff in compare_services(*pair).latencies}
        for pair in ((one, one), (a, one), (a, b))
    )
    assert not any(diff.leaves_out for diff in plain.values())
    assert (wide["ttft_mean_ms"].low, wide["ttft_mean_ms"].high) == pytest.approx((-mean / 4, 0))
    found = both["ttft_mean_ms"]
    assert found.low == pytest.approx(-mean * np.hypot(1 / 4, 1 / 5))
    assert found.high == pytest.approx(mean / 4)
    assert {name for name, diff in both.items() if not diff.leaves_out} == {"ttft_mean_ms"}
    assert both["ttft_p99_ms"].high == plain["ttft_p99_ms"].high


@pytest.mark.slow
def test_a_difference_within_the_stated_errors_may_be_chance() -> None:
    one = serve(**_FIXED, rate=100.0)
    other = serve(**(_FIXED | {"steps": "linear:1.5e6"}), rate=100.0)
    stated = dict.fromkeys(("ttft_mean_ms", "ttft_p99_ms"), (-0.9, 0.9))
    assert "may be chance" not in str(compare_services(one, other))
    lines = str(compare_services(_with_stated(one, stated), other)).splitlines()
    rows = {line.split()[0]: line for line in lines if line.startswith(("ttft", "e2el"))}
    assert rows["ttft_mean_ms"].endswith(", may be chance")
    assert rows["ttft_median_ms"].endswith(" *")
    assert rows["e2el_p99_ms"].endswith(" *")
    assert lines[-1].startswith("* without the error of estimated steps")


def test_services_of_other_requests_are_not_compared() -> None:
    one = serve(**_FIXED, rate=100.0)
    other = _FIXED | {"source": "fixed:count=400,prompt_tokens=11,output_tokens=1"}
    with pytest.raises(ServingError, match="have other requests"):
        compare_services(one, serve(**other, rate=100.0))


@pytest.mark.slow
def test_what_if_is_the_service_with_the_change() -> None:
    one = serve(**_FIXED, rate=100.0)
    found = what_if_served(one, "max_num_seqs x4")
    assert found.result.summary["settings"]["max_num_seqs"] == 4
    assert found.result.requests.equals(
        serve(**(_FIXED | {"max_num_seqs": 4}), rate=100.0).requests
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("faster", "expected KEY=VALUE"),
        ("max_num_sequences=4", "did you mean 'max_num_seqs'"),
        ("policy x2", "is not a number"),
        ("hbm.bandwidth=4", "scale it"),
        ("hbm.bandwidth x2", "hbm.bandwidth is of a machine, and the steps of this service have"),
        ("clock_ghz=2", "clock_ghz is of a machine"),
        ("foo=1", "unknown key 'foo'; give a parameter of the service, such as tile, or a key of"),
    ],
)
def test_what_ifs_that_are_refused(change: str, message: str) -> None:
    with pytest.raises(ServingError, match=message):
        what_if_served(serve(**_FIXED, rate=100.0), change)


def test_parts_add_up_where_the_loop_ran_by_itself() -> None:
    result = serve(**_FIXED, rate=900.0)
    assert result.requests["computed_steps"].null_count == len(result.requests)
    why = why_served(result)
    latency = max(result.requests["e2el_ns"].to_pylist())
    for time in why.times:
        assert sum(part.ns for part in time.parts) == pytest.approx(time.ns, rel=1e-12)
        assert time.ns <= latency
    first = why.times[0]
    assert first.request is not None
    row = result.requests.slice(first.request, 1)
    assert first.ns == row["e2el_ns"][0].as_py()
    assert {part.stage: part.ns for part in first.parts}["prefill"] == 1_000_000


def test_objects_cannot_be_served_again() -> None:

    result = serve(trace=three(), steps=PerToken, num_blocks=9)
    with pytest.raises(ServingError, match="objects of Python for steps, trace"):
        what_if_served(result, "max_num_seqs=1")
    with pytest.raises(ArgError):
        serve(trace=three(), resume=True)


_TINY: Final = {
    "name": "tiny", "model_dim": 64, "layers": 2, "vocabulary": 256,
    "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16, "window": 8, "windowed_layers": [1]},
    "experts": {"count": 4, "active": 2, "inner_dim": 32, "shared_inner": 16},
    "dense": {"inner_dim": 96, "layers": 1}, "weight_dtype": "fp8",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("given", ["file", "dimensions"])
def test_what_if_of_a_model_of_the_user(tmp_path: Path, given: str) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(_TINY))
    asked = _FIXED | {"rate": 100.0, "memory_bytes": 10**6, "num_blocks": None}
    asked["model"] = str(path) if given == "file" else _TINY
    serve(**asked, out=tmp_path / "one")
    one = ServeResult.read(tmp_path / "one")
    found = what_if_served(one, "max_num_seqs x4")
    assert found.result.requests.equals(serve(**(asked | {"max_num_seqs": 4})).requests)
    assert spec_of(one).choices.model == Model.parse(_TINY)
