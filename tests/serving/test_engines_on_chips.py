"""Engines on several chips: steps are the sums of their programs, and memory that of each chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.errors import StepSimError
from stepsim.machine import Machine, load_machine
from stepsim.serving import AuditedSteps, ExactSteps, serve
from stepsim.serving.scheduling.capacity import held_by_stages
from stepsim.serving.scheduling.settings import SchedulerRules
from stepsim.serving.service.serve import prepare_service
from stepsim.serving.steps.features import LINKS
from stepsim.serving.steps.layers import StepPrograms, data_of_batch
from stepsim.simulation import simulate
from stepsim.workloads import Data, LatentHeads, Model, Split
from stepsim.workloads.models import Dense, Experts, GroupedHeads
from tests.pages import DOCS, blocks
from tests.serving.small import LAYERS, batch, layer, machine, routing, small

MIXED = batch((0, 1, 9), (1, 1, 30), (2, 20, 0), (3, 1, 5))
LATENT = LatentHeads(4, 16, 8, 8, 8, q_lora_rank=12)


def chips(**changes: Any) -> Machine:
    stated = {"count": 8, "topology": "ring", "gib_per_s": 50, "latency_ns": 500} | changes
    of_chips = {f"chips.{name}": value for name, value in stated.items()}
    return load_machine("sda-1024", {"clock_ghz": 2.0, **of_chips})


def narrow(model: Model | None = None, **changes: Any) -> Any:
    return layer(model, **{"tile_inter": 16, **changes})


@pytest.mark.slow
def test_a_step_is_the_sum_of_the_programs_of_its_layers_on_their_chips() -> None:
    split: dict[str, Any] = {"tp": 2, "ep": 2}
    found = ExactSteps(narrow(**split), chips(), routing()).time(0, MIXED)
    runs = []
    for ids in routing().all_ids(MIXED):
        data = data_of_batch(MIXED, ids)
        built = narrow(**split).build_for(data, chips())
        runs.append(simulate(built.program, machine=chips(), bindings=built.bindings(data)))
    head = layer(tp=2, part="head").build_for(Data.of(rows=4), chips())
    runs.append(simulate(head.program, machine=chips()))
    assert found.cycles == sum(one.cycles for one in runs)
    assert found.offchip_bytes == sum(one.offchip_bytes for one in runs)
    assert found.bound == LINKS


def test_one_chip_of_several_takes_the_time_of_a_machine_of_one() -> None:
    alone, one = (ExactSteps(layer(), each, routing()) for each in (machine(), chips()))
    assert alone.time(0, MIXED) == one.time(0, MIXED)


@pytest.mark.slow
def test_stages_add_what_carries_rows_between_them() -> None:
    rows = int(MIXED.new.sum())
    whole, two, three = (StepPrograms(narrow(pp=pp), chips()).handover(rows) for pp in (1, 2, 3))
    assert (whole.cycles, whole.offchip_bytes) == (0, 0)
    # Each stage but the first reads what the one before it has written: 64 bf16 elements a row.
    assert two.offchip_bytes == 2 * rows * 64 * 2
    assert (three.cycles, three.offchip_bytes) == (2 * two.cycles, 2 * two.offchip_bytes)
    slower = StepPrograms(narrow(pp=2), chips(latency_ns=1500)).handover(rows)
    assert slower.cycles - two.cycles == 1000 * 2
    steps = [ExactSteps(narrow(pp=pp), chips(), routing()).time(0, MIXED) for pp in (1, 3)]
    assert (steps[1].cycles or 0) - (steps[0].cycles or 0) == three.cycles


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(small(), id="experts", marks=pytest.mark.slow),
        pytest.param(small(dense=Dense(64, 1)), id="mixed", marks=pytest.mark.slow),
        pytest.param(small(heads=LATENT, dense=Dense(64, 1)), id="latent"),  # has both kinds too
    ],
)
def test_the_bytes_of_all_chips_are_exact_in_estimates(model: Model) -> None:
    of_tokens = routing(model)
    made = [
        kind(narrow(model, tp=2, ep=2, pp=2), chips(), of_tokens)
        for kind in (ExactSteps, AuditedSteps)
    ]
    exact, audited = (one.time(0, MIXED) for one in made)
    assert audited.offchip_bytes == exact.offchip_bytes


@pytest.mark.long
def test_audited_steps_on_chips_are_near_exact_ones() -> None:
    rng = np.random.default_rng(4)
    batches = [
        batch(*((i, 1, int(rng.integers(1, 60))) for i in range(1 + step % 5)))
        for step in range(20)
    ]
    workload = narrow(tp=2, ep=2)
    exact = ExactSteps(workload, chips(), routing())
    audited = AuditedSteps(workload, chips(), routing())
    times = [
        sum(model.time(i, one).cycles or 0 for i, one in enumerate(batches))
        for model in (exact, audited)
    ]
    assert abs(times[1] / times[0] - 1) < 0.01
    assert audited.report().within
    assert audited.programs.runs < exact.programs.runs


GROUPED = Model(
    "x", 64, Experts(8, 2, 32, 16), GroupedHeads(8, 2, 16), Dense(128, 1), 5, vocabulary=96
)


def test_weights_and_tokens_of_each_chip_by_hand() -> None:
    # Five layers on two stages are three and two, the first of them dense.
    attention, router, expert = 64 * (8 + 2) * 32, 64 * 8, 3 * 64 * 32
    dense, shared, words = 3 * 64 * 128, 3 * 64 * 16, 96 * 64
    layers = 4 * (8 * expert + shared + router) + dense + 5 * attention
    (whole,) = held_by_stages(GROUPED, Split())
    assert whole.weights == 2 * (layers + 2 * words)
    assert whole.kv_bytes == 5 * 2 * 32 * 2
    first, last = held_by_stages(GROUPED, Split(tp=2, ep=2, pp=2))
    routed = 4 * expert + shared // 2 + router
    assert first.weights == 2 * (3 * attention // 2 + dense // 2 + 2 * routed + words // 2)
    assert last.weights == 2 * (2 * attention // 2 + 2 * routed + words // 2)
    assert (first.kv_bytes, last.kv_bytes) == (3 * 32 * 2, 2 * 32 * 2)
    # With more members than KV heads each has one of them; experts are divided by inner columns.
    (own,) = held_by_stages(GROUPED, Split(tp=8, ep=2))
    keys = 64 * (1 + 1) * 32
    routed = 4 * expert // 4 + shared // 8 + router
    assert own.weights == 2 * (5 * keys + dense // 8 + 4 * routed + 2 * words // 8)
    assert own.kv_bytes == 5 * 32 * 2
    latent = Model("y", 64, None, LATENT, Dense(128), 4, vocabulary=96)
    caches = {split.tp: held_by_stages(latent, split)[0].kv_bytes for split in (Split(), Split(4))}
    assert caches == {1: 4 * (16 + 8) * 2, 4: 4 * (16 + 8) * 2}


_SERVICE: dict[str, Any] = {
    "source": "fixed:count=3,prompt_tokens=9,output_tokens=3", "rate": 1e5, "steps": "exact",
    "query_tile": 16, "kv_tile": 8, "attention_regions": 2, "tile_inter": 16,
    "memory_bytes": 10**7,
}  # fmt: skip


def served(model: Model | None = None, **changes: Any) -> Any:
    return serve(**{"machine": chips(), "model": model or small(), **_SERVICE, **changes})


@pytest.mark.slow
def test_a_service_on_chips_has_the_blocks_of_the_chip_with_the_least_room() -> None:
    result = served(tp=2, ep=2, pp=2)
    assert result.metrics["completed"] == 3
    assert set(result.steps["bound"].to_pylist()) == {LINKS}
    held = held_by_stages(small(), Split(2, 2, 2))
    rooms = [(9_200_000 - one.weights) // (16 * one.kv_bytes) for one in held]
    # One block of the pool is reserved.
    assert result.summary["kv_blocks"] == min(rooms) - 1
    assert rooms[0] < rooms[1]
    assert result.summary["settings"]["tp"] == 2
    assert served(tp=1, ep=1, pp=1).requests.equals(served().requests)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dp": 2}, "dp: an engine has one batch and one KV cache.*give replicas"),
        ({"tp": 2, "replicas": 5}, "replicas: expected a machine of 10 chips for 5 engines of 2"),
        ({"tp": 4, "replicas": 2, "machine": machine()}, "tp: expected a machine of 4 chips"),
        (
            {"tp": 4, "split": "prefill=1,decode=2,latency=1us,bandwidth=1GB/s"},
            "split: expected a machine of 12 chips for 3 engines of 4, found 8 chips",
        ),
        (
            {"pp": 2, "pp_micro_batches": 1},
            "pp_micro_batches: the stages of an engine compute one after the other",
        ),
        ({"pp": 4}, f"pp: expected at most the {LAYERS} layers of the model, found 4"),
        ({"tp": 8}, "tp: expected a divisor of the 4 heads of tiny, found 8"),
        ({"tp": 2, "ep": 4}, "ep: expected a divisor of dp 1 times a divisor of tp 2, found 4"),
        ({"tile_inter": 48}, "tile_inter: expected a divisor of the inner dimension 64"),
        ({"collective": "direct"}, "collective: has no effect"),
        ({"tp": 2, "steps": "linear:100", "model": None}, "tp: has no effect with steps linear"),
        (
            {"tp": 2, "memory_bytes": 10**5},
            r"tiny does not fit: its weights on a chip of 2 \(tp 2\) take .* more chips by tp, ep",
        ),
    ],
)
def test_engines_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    given = {name: value for name, value in changes.items() if value is not None}
    with pytest.raises(StepSimError, match=message):
        served(**given)


def test_the_example_of_the_page_fits_its_chips() -> None:
    path = DOCS.parent / "examples" / "serving" / "eight_chips.yaml"
    shown = next(one.body for one in blocks("serving.md") if "# eight_chips.yaml" in one.body)
    assert path.read_text("utf-8").endswith(shown.partition("\n")[2])
    service = prepare_service(path)
    # 94 layers; each chip has one of 4 KV heads, with a key and a value of 128 bf16 elements.
    free = 73_600_000_000 - held_by_stages(Model.parse("qwen3-235b-a22b"), Split(8, 8))[0].weights
    assert isinstance(service.scheduler, SchedulerRules)
    assert service.scheduler.usable_blocks == free // (16 * 94 * 2 * 128 * 2) - 1
