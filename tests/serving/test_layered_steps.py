"""Step models of simulated layers: exact ones add up, audited ones are near and say how near."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.errors import ArgError, ServingError
from stepsim.machine import load_machine
from stepsim.serving import AuditedSteps, Batch, ExactSteps
from stepsim.serving.steps.audited import Audit, AuditReport
from stepsim.serving.steps.layers import StepPrograms, data_of_batch, layer_kinds
from stepsim.simulation import simulate
from stepsim.workloads import Data, Step
from stepsim.workloads.models import Dense
from stepsim.workloads.models.windows import Windows
from tests.serving.small import LAYERS, batch, layer, machine, routing, small

MIXED = batch((0, 1, 9), (1, 1, 30), (2, 20, 0), (3, 1, 5))
DENSE = small(experts=None, dense=Dense(64))


def simulated(workload: Step, data: Data) -> Any:
    built = workload.build(data)
    return simulate(built.program, bindings=built.bindings(data), machine=machine())


def steps_of(count: int, seed: int = 3) -> list[Batch]:
    """Batches of a service that grows and then shrinks, with chunks of prompts."""
    rng = np.random.default_rng(seed)
    found = []
    for step in range(count):
        running = 1 + int(6 * np.sin(np.pi * (step + 1) / (count + 1)))
        entries = [(i, 1, int(rng.integers(1, 60)) + step // 4) for i in range(running)]
        if rng.random() < 0.25:
            entries.append((running, int(rng.integers(2, 40)), 0))
        found.append(batch(*entries))
    return found


@pytest.mark.slow
def test_an_exact_step_is_the_sum_of_its_layers_and_the_head() -> None:
    drawn, model = routing(), ExactSteps(layer(), machine(), routing())
    found = model.time(0, MIXED)
    runs = [simulated(layer(), data_of_batch(MIXED, ids)) for ids in drawn.all_ids(MIXED)]
    runs.append(simulated(layer(part="head"), Data.of(rows=4)))
    assert found.cycles == sum(one.cycles for one in runs)
    assert found.offchip_bytes == sum(one.offchip_bytes for one in runs)
    assert found.ns == round(found.cycles / 2)
    assert found.how == "exact"
    assert found.bound
    before = model.programs.runs
    assert model.time(1, MIXED) == found
    assert model.programs.runs == before


EQUAL = [
    batch((0, 1, 9), (1, 1, 30)),
    batch((0, 1, 10), (1, 1, 31)),
    batch((0, 1, 50), (3, 1, 3)),
    batch((0, 5, 50), (3, 1, 4)),
    batch((3, 1, 200), (0, 1, 1)),
]
"""Batches, of which all but one have equal new tokens."""


def built_by(monkeypatch: pytest.MonkeyPatch) -> list[Data]:
    """The data of programs that will be built."""
    found: list[Data] = []
    build = Step.build

    def noted(step: Step, data: Data) -> Any:
        found.append(data)
        return build(step, data)

    monkeypatch.setattr(Step, "build", noted)
    return found


@pytest.mark.slow
def test_batches_of_equal_new_tokens_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def costs(programs: StepPrograms, one: Batch) -> Any:
        return programs.layers(0, one, list(routing().all_ids(one)))

    alone = [costs(StepPrograms(layer(), machine()), one) for one in EQUAL]
    built = built_by(monkeypatch)
    programs = StepPrograms(layer(), machine())
    assert [costs(programs, one) for one in EQUAL] == alone
    assert [costs(programs, one) for one in EQUAL] == alone
    assert len(built) == 2
    assert len({cost for costs in alone for cost in costs}) > len(EQUAL)


@pytest.mark.parametrize(
    ("name", "changes"), [("sda-1024", {"onchip.capacity_bytes": 2**30}), ("hdl-dram", {})]
)
def test_programs_are_not_shared_where_the_size_of_caches_counts(
    name: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = built_by(monkeypatch)
    programs = StepPrograms(layer(), load_machine(name, {"clock_ghz": 2.0, **changes}))
    for one in EQUAL:
        programs._of_batch(0, one, routing().ids(one, 0))
    assert len(built) == len(EQUAL)


@pytest.mark.slow
def test_chunks_that_yield_nothing_need_no_head() -> None:
    model = ExactSteps(layer(), machine(), routing())
    silent = batch((2, 20, 0), emits=False)
    runs = [simulated(layer(), data_of_batch(silent, ids)) for ids in routing().all_ids(silent)]
    assert model.time(0, silent).cycles == sum(one.cycles for one in runs)


def test_equal_dense_layers_are_simulated_once() -> None:
    model = ExactSteps(layer(DENSE), machine(), None)
    found = model.time(0, MIXED)
    one = simulated(layer(DENSE), data_of_batch(MIXED, None))
    head = simulated(layer(DENSE, part="head"), Data.of(rows=4))
    assert found.cycles == LAYERS * one.cycles + head.cycles
    assert model.programs.runs == 2


def test_layers_of_each_kind() -> None:
    model = small(layers=6, dense=Dense(64, 2), windows=Windows(8, (0, 3, 5)))
    kinds = layer_kinds(layer(model))
    assert sum(kind.layers for kind in kinds) == 6
    assert {(kind.workload.window, kind.routed) for kind in kinds} == {
        (8, ()), (None, ()), (None, (0, 2)), (8, (1, 3)),
    }  # fmt: skip
    assert {kind.workload.network for kind in kinds} == {"dense", None}
    all_windowed = layer_kinds(layer(small(windows=Windows(8))))
    assert [kind.name for kind in all_windowed] == ["experts, window of 8 tokens"]


@pytest.mark.slow
def test_the_order_of_bytes_is_exact_in_estimates() -> None:
    exact, audited = (kind(layer(), machine(), routing()) for kind in (ExactSteps, AuditedSteps))
    for number, one in enumerate(steps_of(6)):
        assert audited.time(number, one).offchip_bytes == exact.time(number, one).offchip_bytes


@pytest.mark.long
@pytest.mark.parametrize("model", [small(), DENSE], ids=["experts", "dense"])
def test_audited_steps_are_near_exact_ones_and_say_how_near(model: Any) -> None:
    drawn = routing() if model.experts else None
    exact = ExactSteps(layer(model), machine(), drawn)
    audited = AuditedSteps(layer(model), machine(), drawn, error=0.02)
    batches = steps_of(80)
    times = [audited.time(i, one) for i, one in enumerate(batches)]
    report = audited.report()
    true = sum(exact.time(i, one).cycles or 0 for i, one in enumerate(batches))
    bias = sum(one.cycles or 0 for one in times) / true - 1
    assert abs(bias) < 0.02
    assert report.low is not None
    assert report.high is not None
    half = (report.high - report.low) / 2
    assert report.low - half < bias < report.high + half
    assert {one.how for one in times} == {"audited", "estimated"}
    assert report.audits >= 16
    assert f"layers of {report.audits} of 80 steps were simulated beside" in str(report)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_times() -> None:
    def times(seed: int) -> list[int]:
        model = AuditedSteps(layer(), machine(), routing(), seed=seed)
        return [model.time(i, one).ns for i, one in enumerate(steps_of(30))]

    assert times(1) == times(1)


@pytest.mark.slow
def test_batches_of_arrays_that_are_used_again_are_audited_as_they_were() -> None:
    def report(*, again: bool) -> AuditReport:
        model = AuditedSteps(layer(DENSE), machine(), None, error=1e-9)
        for number, one in enumerate(steps_of(20)):
            model.time(number, one)
            if again:
                one.before[:] = 3
        return model.report()

    assert report(again=True) == report(again=False)


@pytest.mark.slow
def test_another_round_knows_what_was_learned_and_draws_anew() -> None:
    def served(model: AuditedSteps) -> list[str]:
        return [model.time(number, one).how for number, one in enumerate(steps_of(30))]

    model = AuditedSteps(layer(DENSE), machine(), None, error=0.2)
    assert served(model)[0] == "audited"  # of which nothing is known yet, so that it is learned
    first = model.report()
    audited, far = [one.step for one in model.audits], sum(model.unlike)
    model.again()
    assert (model.rounds, model.steps, model.audits) == (1, 0, [])
    before, learned = model.programs.runs, len(model._estimators[0])
    assert learned > len(audited)
    # What it knows, it does not learn again: a model without memory would simulate two layers.
    model.time(0, steps_of(30)[0])
    assert model.programs.runs - before <= 1
    model.again()
    served(model)
    second = model.report()
    assert (model.rounds, second.steps) == (2, 30)
    assert [one.step for one in model.audits] != audited
    assert len(model._estimators[0]) > learned
    # More steps are learned, so that others are less unlike them, and estimates better.
    assert sum(model.unlike) < far / 20
    assert second.median is not None
    assert first.median is not None
    assert second.median < first.median / 2


def test_single_steps_of_many_may_be_further_from_what_is_known() -> None:
    model = AuditedSteps(layer(DENSE), machine(), None, error=0.1)
    model._recent[0].append(0.5)

    def far(steps: int) -> float:
        model.steps = steps
        return model._unlike(0, MIXED)

    assert far(0) == far(1000) == pytest.approx(0.2)
    assert far(4000) == pytest.approx(0.4)


def test_a_correction_makes_a_step_as_long_as_its_audit_says() -> None:
    one = Audit(
        3, 2, 2, 40, 0.1, 0.2, layers=300.0, head=100, estimated=10.0, simulated=12, variance=0.0
    )
    assert one.error == pytest.approx(-1 / 6)
    assert one.correction == pytest.approx((300 * 1.2 + 100) / 400)


@pytest.mark.slow
def test_a_wrong_estimator_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    audited = AuditedSteps(layer(), machine(), routing())
    right = audited._estimate
    monkeypatch.setattr(audited, "_estimate", lambda *given: 1.1 * right(*given))
    for number, one in enumerate(steps_of(60)):
        audited.time(number, one)
    report = audited.report()
    assert not report.within
    assert report.low is not None
    assert report.low > 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ExactSteps(layer(), load_machine("sda-1024"), routing()),
            "machine sda-1024 states no clock, so that its cycles have no length; set clock_ghz",
        ),
        (lambda: ExactSteps(layer(), machine(), None), "model tiny has experts; give the routing"),
        (
            lambda: ExactSteps(layer(DENSE), machine(), routing()),
            "the routing is of 3 layers of 4 experts, expected that of tiny",
        ),
        (
            lambda: ExactSteps(layer(small(layers=None)), machine(), None),
            "model tiny lacks the number of its layers",
        ),
        (
            lambda: ExactSteps(layer(small(vocabulary=None)), machine(), routing()),
            "model tiny lacks its vocabulary",
        ),
        (
            lambda: StepPrograms(layer(small(dense=Dense(64, 1)), network="dense"), machine()),
            "network: has no effect, since all layers of tiny are simulated",
        ),
    ],
)
def test_what_cannot_be_served(make: Any, message: str) -> None:
    with pytest.raises(ServingError, match=message):
        make()


@pytest.mark.parametrize("error", [0, 1, -0.1])
def test_an_error_is_a_share(error: float) -> None:
    with pytest.raises(ArgError, match="error: expected a share between 0 and 1"):
        AuditedSteps(layer(), machine(), routing(), error=error)
