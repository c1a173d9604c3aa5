"""Micro-batches that pass through stages of layers: values, work, times by the closed form."""

from __future__ import annotations

import re
import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.functional import evaluate
from stepsim.machine import load_machine
from stepsim.simulation import simulate
from stepsim.workloads import Data, Decoder, Model, ParameterError, Step
from stepsim.workloads.models import Experts, GroupedHeads
from stepsim.workloads.parallel.split import Split
from tests.on_chips import in_order, messages_of, moved

TINY = Model("tiny", 64, Experts(8, 2, 64), GroupedHeads(8, 8, 16))
USUAL: dict[str, Any] = {
    "model": TINY, "strategy": "interleaved", "tile": "dynamic", "tile_inter": 8, "kv_tile": 8,
    "attention_regions": 2, "weight_loads": 1,
}  # fmt: skip
MACHINE = {
    "clock_ghz": 1, "chips.count": 8, "chips.topology": "ring", "chips.gib_per_s": 50,
    "chips.latency_ns": 500,
}  # fmt: skip
D, SCALAR = 64, 2
OUTPUT = re.compile(r"output(/\d+)?(@\d+)?")


def data_of(requests: int, *, cached: int | None = None) -> Data:
    rng = np.random.default_rng(3)
    chosen = rng.random((requests, 8)).argsort(axis=1)[:, :2]
    lengths = rng.integers(0, 40, requests) if cached is None else np.full(requests, cached)
    return Data.of(routing=chosen, kv_lengths=lengths)


def arrays_of(program: st.Program) -> dict[str, np.ndarray]:
    """Numbers of every tensor, which its name decides."""
    found = {}
    for op in program.operators:
        tensor = getattr(op, "tensor", None)
        if tensor is not None and not OUTPUT.fullmatch(tensor.name):
            seed = zlib.crc32(tensor.name.encode())
            size = np.random.default_rng(seed).normal(size=tensor.shape).astype("f4")
            found[tensor.name] = size / np.float32(8)
    return found


def own(name: str, batch: int) -> str:
    """The name, in the program of a micro-batch alone, of one of its tensors."""
    return name.replace(f"/{batch}", "") if batch else name


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Step, Decoder])
@pytest.mark.parametrize(
    "split",
    [
        {"pp": 2},
        pytest.param({"pp": 2, "tp": 2, "ep": 2}, marks=pytest.mark.slow),
        pytest.param({"pp": 2, "dp": 2}, marks=pytest.mark.slow),
    ],
)
def test_values_are_those_of_each_micro_batch_alone(kind: Any, split: dict[str, int]) -> None:
    data, batches = data_of(5), 2
    together = kind.of(**USUAL, **split, pp_micro_batches=batches).build(data).program
    arrays = arrays_of(together)
    stored = evaluate(together, arrays, decisions=in_order(together), scalar="f32").stored
    outputs = 0
    for j in range(batches):
        part = Split(dp=batches).data(data, j)
        alone = kind.of(**USUAL, **split).build(part).program
        mine = {own(name, j): x for name, x in arrays.items()}
        names = {t.name for op in alone.operators if (t := getattr(op, "tensor", None)) is not None}
        given = {name: mine[name] for name in names if name in mine}
        done = evaluate(alone, given, decisions=in_order(alone), scalar="f32").stored
        for name, wanted in done.items():
            if OUTPUT.fullmatch(name):
                number = name.removeprefix("output")
                found = stored[f"output/{j}{number}" if j else name]
                np.testing.assert_array_equal(found, wanted)
                outputs += 1
    assert outputs == batches * split.get("tp", 1) * split.get("dp", 1)


@pytest.mark.slow
def test_stages_send_the_rows_of_every_micro_batch() -> None:
    program = Step.of(**USUAL, pp=3, pp_micro_batches=4).build(data_of(8)).program
    sent = {chip: moved(messages) for chip, messages in messages_of(program).items()}
    assert sent == {0: (8, 8 * D * SCALAR), 1: (8, 8 * D * SCALAR)}


def test_weights_are_tensors_of_a_chip_and_caches_of_a_micro_batch() -> None:
    program = Step.of(**USUAL, pp=2, pp_micro_batches=2).build(data_of(4)).program
    names = {t.name for op in program.operators if (t := getattr(op, "tensor", None)) is not None}
    assert {name for name in names if name.startswith(("up.0", "cache_key"))} == {
        "up.0", "up.0@1", "cache_key", "cache_key/1", "cache_key@1", "cache_key/1@1",
    }  # fmt: skip


BALANCED = Model("balanced", 512, Experts(8, 2, 512), GroupedHeads(8, 8, 64))


@cache
def cycles(kind: Any, stages: int, batches: int) -> int:
    """Of micro-batches of eight requests that need the same time."""
    each = np.stack([np.arange(8), (np.arange(8) + 3) % 8], axis=1)
    # Micro-batch j has the requests j, j + batches, ...
    chosen = np.repeat(each, batches, axis=0)
    data = Data.of(routing=chosen, kv_lengths=np.full(8 * batches, 300))
    machine = load_machine("sda-1024", MACHINE)
    given = {"pp_micro_batches": batches} if batches > 1 else {}
    workload = kind.of(model=BALANCED, pp=stages, strategy="interleaved", tile="dynamic", **given)
    built = workload.build_for(data, machine)
    run = simulate(built.program, machine, bindings=built.bindings(data))
    assert run.status == "ok"
    return int(run.cycles)


@pytest.mark.long
@pytest.mark.parametrize("kind", [Step, Decoder])
@pytest.mark.parametrize(("stages", "batches"), [(2, 4), (4, 4), (3, 6)])
def test_a_balanced_pipeline_takes_the_closed_form(kind: Any, stages: int, batches: int) -> None:
    """m micro-batches on p stages take m + p - 1 times as long as a stage needs for one."""
    each = (cycles(kind, stages, 2 * batches) - cycles(kind, stages, batches)) / batches
    found = cycles(kind, stages, batches) / each
    assert found == pytest.approx(batches + stages - 1, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Step, Decoder])
def test_stages_work_at_the_same_time(kind: Any) -> None:
    """Four micro-batches on two stages take far less than one after the other."""
    assert cycles(kind, 2, 4) < 0.75 * 4 * cycles(kind, 2, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pp_micro_batches": 2}, "pp_micro_batches: has no effect on a single stage"),
        (
            {"pp": 2, "pp_micro_batches": 9},
            "pp_micro_batches: expected a request for each micro-batch at least, which are 9, "
            "found 8 requests",
        ),
        (
            {"pp": 2, "dp": 3, "pp_micro_batches": 3},
            "micro-batch of 3 groups at least, which are 9, found 8 requests",
        ),
    ],
)
@pytest.mark.parametrize("kind", [Step, Decoder])
def test_what_does_not_fit_is_named(kind: Any, changes: dict[str, int], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        kind.of(**USUAL, **changes).build(data_of(8))
