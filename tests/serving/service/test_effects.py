"""Parameters that nothing reads are refused by name, before anything runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stepsim.errors import StepSimError
from stepsim.machine import load_machine
from stepsim.plugins import Plugin
from stepsim.serving import JumpingClock, serve
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling import schedulers
from stepsim.serving.scheduling.settings import SchedulerRules, SchedulingChoices
from stepsim.serving.service import serve as module
from stepsim.workloads import ParameterError, fields_of
from tests.serving.service.doubles import OneByOne, PerToken, three

_LINEAR: dict[str, Any] = {"steps": "linear:100,10", "num_blocks": 40}
_LIMITS: dict[str, Any] = {**_LINEAR, "max_num_seqs": 4, "max_num_batched_tokens": 64}
_OF_VLLM = dict.fromkeys(fields_of(SchedulingChoices), 2) | {
    "policy": "fcfs", "pool": "vllm", "watermark": 0.5, "gpu_memory_utilization": 0.5,
    "enable_chunked_prefill": True, "enable_prefix_caching": True, "threshold_alone": True,
    "long_prefill_token_threshold_adaptive": True, "scheduler_reserve_full_isl": True,
}  # fmt: skip


def _machine() -> Any:
    return load_machine("sda-1024", overrides={"clock_ghz": 1, "hbm.capacity_bytes": 1 << 34})


def _objects() -> dict[str, Any]:
    return {"scheduler": partial(OneByOne, three()), "steps": PerToken}


@pytest.mark.parametrize(
    ("usual", "wrong"),
    [
        (_LINEAR, {"first": 1}),
        (_LINEAR, {"requests": 1}),
        (_LINEAR, {"output_tokens": 1}),
        (_LINEAR, {"overrides": {"clock_ghz": 1}}),
        *((_objects(), {name: value}) for name, value in _OF_VLLM.items()),
        (_objects(), {"memory_bytes": 10**9}),
        (_objects(), {"model": "tinyllama-1.1b"}),
        (_objects(), {"machine": "sda-1024"}),
        (_objects(), {"tile": 16}),
        (_objects(), {"routing": "zipf:1"}),
        (_objects(), {"error": 0.1}),
        (_LINEAR, {"tile": 16}),
        (_LINEAR, {"routing": "zipf:1"}),
        (_LINEAR, {"error": 0.01}),
        (_LINEAR, {"model": "tinyllama-1.1b"}),
        (_LIMITS, {"memory_bytes": 10**9}),
        (_LINEAR, {"machine": "sda-1024"}),  # it states no capacity
        ({**_LIMITS}, {"machine": _machine()}),
        ({**_LINEAR, "memory_bytes": 10**9}, {"machine": _machine()}),
        ({**_LINEAR, "machine": _machine()}, {"overrides": {"clock_ghz": 2}}),
        ({**_objects(), "clock": JumpingClock()}, {"host": "1us"}),
        (
            {"steps": "exact", "model": "tinyllama-1.1b", "machine": _machine(), "num_blocks": 9},
            {"error": 0.1},
        ),
    ],
)  # fmt: skip
def test_what_has_no_effect(usual: dict[str, Any], wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ParameterError) as caught:
        module.prepare_service(trace=three(), **usual, **wrong)
    (found,) = [text for named, text in caught.value.problems if named == name]
    assert "has no effect" in found
    assert "leave it out" in found


def test_all_of_them_are_listed() -> None:
    with pytest.raises(ParameterError) as caught:
        serve(trace=three(), **_LINEAR, tile=16, first=1, error=0.1)
    assert {name for name, _ in caught.value.problems} == {"tile", "first", "error"}


def test_what_has_an_effect_is_taken() -> None:
    slow = serve(trace=three(), **_LINEAR, machine=_machine())
    assert slow.summary["metrics"]["completed"] == 3
    by_memory = serve(
        trace=three(), model="tinyllama-1.1b", memory_bytes=1 << 34, steps="linear:100,10"
    )
    assert by_memory.summary["metrics"]["completed"] == 3


class _Sundial:
    """A clock of a user."""

    def first(self, arrival_ns: int) -> int:
        return arrival_ns

    def after_step(self, end_ns: int) -> int:
        return end_ns

    def after_idle(self, now_ns: int, arrival_ns: int) -> int:
        return arrival_ns


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {**_objects(), "replicas": 2},
            "replicas: several engines have the schedulers of stepsim alone",
        ),
        ({**_LINEAR, "clock": _Sundial()}, "clock .*_Sundial: clocks of plugins have an effect"),
    ],
)
def test_parts_that_do_not_fit_together(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(StepSimError, match=message):
        module.prepare_service(trace=three(), **wrong)


def test_a_scheduler_of_a_plugin_has_the_arrivals_of_the_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[int]] = []

    def made(requests: Requests, rules: SchedulerRules) -> OneByOne:
        seen.append(requests.arrival_ns.tolist())
        return OneByOne(requests)

    plugin = Plugin("by-one", schedulers.GROUP, "a:b", "a", "1", made)
    monkeypatch.setattr(schedulers.plugins, "usable", lambda group: (plugin,))
    service = module.prepare_service(
        source="fixed:count=2,prompt_tokens=4,output_tokens=2", arrivals="even", rate=1,
        scheduler="by-one", **_LINEAR,
    )  # fmt: skip
    for rate in (1.0, 2.0):
        assert service.at_rate(rate).run().metrics["completed"] == 2
    assert seen == [[10**9, 2 * 10**9], [10**9 // 2, 10**9]]
