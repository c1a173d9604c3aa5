"""Engines behind a router."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from stepsim.errors import StepSimError
from stepsim.serving import Batch, ServeResult, StepTime, serve, why_served
from stepsim.serving.requests.prefixes import Segments
from stepsim.serving.requests.requests import Requests
from stepsim.serving.service import serve as module
from tests.serving.service.doubles import PerToken


def _serve(requests: Requests, **more: Any) -> ServeResult:
    usual: dict[str, Any] = {"num_blocks": 60, "max_num_seqs": 1, "steps": "linear:1000"}
    return serve(trace=requests, **(usual | more))


def test_engines_of_a_turn_are_services_of_their_own() -> None:
    count = 40
    draw = np.random.default_rng(1)
    prompt, output = draw.integers(1, 50, (2, count))
    arrival = np.cumsum(draw.integers(0, 9000, count))
    every = _serve(Requests.of(prompt, output, arrival_ns=arrival), replicas=3)
    assert every.requests["replica"].to_pylist() == [k % 3 for k in range(count)]
    ends = every.requests["finish_ns"].to_numpy()
    for k in range(3):
        own = Requests.of(prompt[k::3], output[k::3], arrival_ns=arrival[k::3])
        alone = _serve(own)
        assert alone.requests["finish_ns"].to_pylist() == ends[k::3].tolist()


def test_a_request_goes_where_the_fewest_are() -> None:
    # The first request is long; all others find the other engine idle or with fewer requests.
    requests = Requests.of([1] * 4, [50, 1, 1, 1], arrival_ns=[0, 10, 2000, 4000])
    made = _serve(requests, replicas=2, router="least-outstanding")
    assert made.requests["replica"].to_pylist() == [0, 1, 1, 1]


def test_a_request_goes_where_its_prefix_is() -> None:
    # Of segments 0 and 1, one each engine; later requests follow theirs.
    segment = np.array([0, 1, 1, 0, 1])
    prefix = Segments(np.arange(6), segment, np.full(5, 33))
    requests = Requests.of([32] * 5, [1] * 5, arrival_ns=np.arange(5) * 9000, prefix=prefix)
    made = _serve(requests, replicas=2, router="prefix-aware", max_num_seqs=4)
    replica = made.requests["replica"].to_numpy()
    assert len(set(replica[segment == 0])) == 1
    assert len(set(replica[segment == 1])) == 1
    assert made.requests["cached_tokens"].to_pylist()[2:] == [16, 16, 16]


def test_parts_add_up_over_replicas() -> None:
    parameters: dict[str, Any] = {
        "source": "fixed:count=50,prompt_tokens=9,output_tokens=3", "rate": 900.0, "num_blocks": 9,
        "steps": "linear:1e6", "replicas": 2, "router": "least-outstanding",
    }  # fmt: skip
    for time in why_served(serve(**parameters)).times:
        assert sum(part.ns for part in time.parts) == pytest.approx(time.ns)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"router": "round-robin"}, "router: has no effect with one replica"),
        ({"replicas": 2, "max_steps": 9}, "max_steps: has no effect with several"),
        ({"replicas": 2, "router": "random"}, "router: expected"),
    ],
)
def test_fleets_that_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(StepSimError, match=message):
        _serve(Requests.of([1], [1]), **wrong)


class _Ends(PerToken):
    """Ends like a killed process in its fourth step."""

    def time(self, step: int, batch: Batch) -> StepTime:
        if step == 3:
            raise KeyboardInterrupt
        return super().time(step, batch)


class _Counts(PerToken):
    """Knows which steps were asked for."""

    asked: ClassVar[list[int]] = []

    def time(self, step: int, batch: Batch) -> StepTime:
        self.asked.append(step)
        return super().time(step, batch)


@pytest.mark.parametrize(
    "engines",
    [
        {"replicas": 2},
        {"split": "prefill=1,decode=1,latency=1us,bandwidth=1GB/s", "model": "mixtral-8x7b"},
    ],
)
def test_resumed_engines_ask_for_the_rest_alone(
    engines: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.0)
    requests = Requests.of([4] * 6, [4] * 6, arrival_ns=np.arange(6) * 100)
    whole = _serve(requests, steps=PerToken, **engines)
    with pytest.raises(KeyboardInterrupt):
        _serve(requests, steps=_Ends, out=tmp_path / "out", **engines)
    settings = tmp_path / "out" / "service.json"
    settings.write_text(settings.read_text().replace("_Ends", "_Counts"))
    _Counts.asked.clear()
    resumed = _serve(requests, steps=_Counts, out=tmp_path / "out", resume=True, **engines)
    assert len(_Counts.asked) < len(whole.steps)
    assert resumed.requests.equals(whole.requests)
    assert resumed.steps.equals(whole.steps)
