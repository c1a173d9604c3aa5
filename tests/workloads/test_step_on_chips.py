"""Steps on several chips: values of one chip, messages and work by formula, bad input."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.functional import evaluate
from stepsim.graph import Program
from stepsim.machine import Chips, load_machine
from stepsim.simulation import run_functional, simulate
from stepsim.workloads import Data, ParameterError, Step
from stepsim.workloads.models import Dense, Experts, GroupedHeads, LatentHeads
from tests.on_chips import in_order, messages_of, moved
from tests.workloads.sharded_values import tensors_of_chips
from tests.workloads.step_values import Numbers, model_of

NEW = np.array([1, 5, 1, 4, 1, 9, 1, 2])
CACHED = np.array([5, 0, 16, 15, 24, 9, 3, 8])
HEADS, EXPERTS = GroupedHeads(8, 8, 16), Experts(8, 2, 64)
LATENT = LatentHeads(8, 32, 16, 8, 16, 24)
SHARED = {"experts": Experts(8, 2, 64, 64), "heads": LATENT}
USUAL = {
    "query_tile": 4, "kv_tile": 8, "attention_regions": 2, "weight_loads": 1, "tile_inter": 8,
    "strategy": "interleaved",
}  # fmt: skip
D, RESULT = 64, 2
"""Columns of a row, and bytes of a scalar."""

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tp": ({}, {"tp": 2}),
    "tp 8, ep 8": ({}, {"tp": 8, "ep": 8}),
    "tp above KV heads": ({"heads": GroupedHeads(8, 2, 16)}, {"tp": 8, "ep": 4}),
    "dp": ({}, {"dp": 2}),
    "ep across dp": ({}, {"dp": 2, "ep": 2}),
    "one request each": ({}, {"dp": 8, "ep": 8, "tile": 4, "expert_regions": 1}),
    "both": ({}, {"dp": 4, "tp": 2, "ep": 8}),
    "groups before members": ({}, {"dp": 4, "tp": 2, "ep": 4}),
    "copies of experts": ({}, {"dp": 4, "tp": 2, "ep": 2}),
    "shared inner columns": ({}, {"dp": 2, "tp": 4, "ep": 2, "collective": "halving-doubling"}),
    "latent": (SHARED, {"dp": 4, "tp": 2, "ep": 8, "collective": "direct"}),
    "dense": ({"experts": None, "dense": Dense(64)}, {"dp": 2, "tp": 4}),
    "static tiles": ({}, {"tp": 2, "dp": 2, "ep": 4, "tile": 4}),
    "head": ({"dense": Dense(64, 1)}, {"part": "layer+head", "network": "dense", "tp": 2, "dp": 2}),
    "head after experts": ({}, {"part": "layer+head", "tp": 2, "ep": 2}),
}


def step(changes: dict[str, Any], given: dict[str, Any]) -> Step:
    model = model_of(**({"heads": HEADS, "experts": EXPERTS} | changes))
    return Step.of(**(USUAL | {"model": model} | given))


def batch(workload: Step, new: np.ndarray = NEW) -> Data:
    experts = workload.layer_model.feed_forward
    rng = np.random.default_rng(1)
    chosen = rng.random((new.sum(), experts.experts)).argsort(axis=1)[:, : experts.active]
    return Data.of(routing=chosen, kv_lengths=CACHED, new_tokens=new)


DECODED = ("both", "latent", "head")
"""Cases of each kind of attention and of result, for which requests of one new token are run too:
how chips divide the work does not depend on how many tokens are new."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "new"),
    [
        *(pytest.param(case, NEW, id=f"{case}-mixed") for case in CASES),
        *(pytest.param(case, np.ones(8, dtype=int), id=f"{case}-decode") for case in DECODED),
    ],
)
def test_values_are_those_of_one_chip(case: str, new: np.ndarray) -> None:
    workload = step(*CASES[case])
    data = batch(workload, new)
    numbers = Numbers(workload, data)
    program = workload.build(data).program
    done = evaluate(
        program, tensors_of_chips(program, numbers), decisions=in_order(program), scalar="f32"
    )
    split = workload.split
    for d in range(split.dp):
        ends = np.cumsum(data.new)[split.requests(data.rows, d)] - 1
        for t in range(split.tp):
            number = split.chip(split.pp - 1, d, t)
            own = f"@{number}" if number else ""
            rows = numbers.rows[split.tokens(data, d)]
            np.testing.assert_allclose(done.stored[f"output{own}"], rows, rtol=2e-4, atol=2e-4)
            if workload.has_head:
                logits = rms_logits(numbers, ends)
                columns = np.split(logits, split.tp, axis=1)[t]
                counts = min(workload.attention_regions, len(ends))
                for r in range(counts):
                    np.testing.assert_allclose(
                        done.stored[f"logits.{r}{own}"], columns[r::counts], rtol=2e-4, atol=2e-4
                    )


def rms_logits(numbers: Numbers, ends: np.ndarray) -> np.ndarray:
    """The logits of rows that end requests."""
    order = np.cumsum(numbers.data.new) - 1
    return numbers.logits[np.searchsorted(order, ends)]


def sent(program: Program) -> dict[int, int]:
    """Bytes that each chip sends."""
    return {chip: moved(messages)[1] for chip, messages in messages_of(program).items()}


@pytest.mark.slow
@pytest.mark.parametrize("collective", ["ring", "direct", "halving-doubling"])
def test_an_all_reduce_behind_attention_and_network(collective: str) -> None:
    workload = step({}, {"tp": 4, "ep": 4, "collective": collective})
    rows = NEW.sum() * D * RESULT
    each = 2 * 2 * rows * 3 // 4
    assert sent(workload.build(batch(workload)).program) == dict.fromkeys(range(4), each)


@pytest.mark.parametrize("active", [1, 2, 4])
def test_rows_go_where_the_routing_sends_them(active: int) -> None:
    workload = step({"experts": Experts(8, active, 64)}, {"dp": 4, "ep": 4})
    data = batch(workload)
    assert data.routing is not None
    split = workload.split
    uses = [
        np.stack([(split.data(data, d).routing // 2 == e).any(axis=1) for e in range(4)], axis=1)
        for d in range(4)
    ]
    expected = {
        d: sum(
            uses[d][:, e].sum() * RESULT * (D + active) + uses[e][:, d].sum() * RESULT * D
            for e in range(4)
            if e != d
        )
        for d in range(4)
    }
    assert sent(workload.build(data).program) == expected
    assert len(set(expected.values())) > 1  # the imbalance that the routing has


def test_stages_send_rows() -> None:
    workload = step({}, {"pp": 3, "tp": 2, "ep": 2})
    program = workload.build(batch(workload)).program
    reduced = 2 * 2 * NEW.sum() * D * RESULT // 2
    rows = NEW.sum() * D * RESULT
    assert sent(program) == {c: reduced + (rows if c < 4 else 0) for c in range(6)}


@pytest.mark.slow
def test_a_stage_computes_what_the_one_before_it_made() -> None:
    workload = step({}, {"pp": 2, "tp": 2, "ep": 2})
    data = batch(workload)
    first, second = Numbers(workload, data), Numbers(workload, data)
    second.hidden = first.rows
    second.compute()
    program = workload.build(data).program
    tensors = tensors_of_chips(program, first, second)
    done = evaluate(program, tensors, decisions=in_order(program), scalar="f32")
    for name in ("output@2", "output@3"):
        np.testing.assert_allclose(done.stored[name], second.rows, rtol=1e-3, atol=1e-3)


def work(program: Program) -> Counter[str]:
    """FLOPs of the products, by label without the number of a region."""
    found: Counter[str] = Counter()
    for op in program.operators:
        if op.label and op.label.startswith("matmul_"):
            found[op.label.split(".")[0]] += int(op.flops())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", ["tp 8, ep 8", "both", "copies of experts", "latent", "dense"])
def test_products_add_up_to_those_of_one_chip(case: str) -> None:
    changes, given = CASES[case]
    split = step(changes, given)
    whole = step(changes, {})
    data = batch(split)
    built = whole.build(data)
    expected: Counter[str] = Counter()
    rows = built.program.metrics().bind(built.symbols(data))
    for op in built.program.operators:
        if op.label and op.label.startswith("matmul_"):
            expected[op.label.split(".")[0]] += int(rows.value(op.flops()))
    copied = {"matmul_router": split.tp, "matmul_kv_down": split.tp, "matmul_query_down": split.tp}
    found = work(split.build(data).program)
    assert found == Counter({k: v * copied.get(k, 1) for k, v in expected.items()})


def weights(program: Program) -> Counter[str]:
    """Bytes of weights by name, all chips together."""
    tensors = {
        op.tensor.name: op.tensor.size_bytes
        for op in program.operators
        if hasattr(op, "tensor") and not op.tensor.name.startswith(("hidden", "cos", "sin", "out"))
    }
    found: Counter[str] = Counter()
    for name, size in tensors.items():
        found[name.split("@")[0]] += size
    return found


@pytest.mark.parametrize("case", ["tp 8, ep 8", "both", "latent", "tp above KV heads"])
def test_weights_add_up_with_the_copies_of_the_page(case: str) -> None:
    changes, given = CASES[case]
    workload = step(changes, given)
    split, data, kv = workload.split, batch(workload), workload.model.attention.kv_heads
    whole = weights(step(changes, {}).build(data).program)
    found = weights(workload.build(data).program)
    for name, size in whole.items():
        what, copies = name.split(".")[0], split.dp
        if what in ("up", "gate", "down") and "shared" not in name:
            copies = split.dp // split.across
        elif what in ("attention_norm", "experts_norm", "router_weights") or (
            workload.latent and what in ("kv_down_weights", "query_down_weights")
        ):
            copies = split.dp * split.tp
        elif what == "qkv_weights" and kv < split.tp:
            size = size * (8 + 2 * split.tp) // (8 + 2 * kv)
        if not what.startswith("cache"):
            assert found[name] == size * copies, name


CHIPS = Chips(topology="ring", count=4, gib_per_s=50, latency_ns=500)
MACHINE = replace(load_machine("sda-1024"), clock_ghz=1.0, chips=CHIPS)


@pytest.mark.parametrize(
    ("changes", "given", "message"),
    [
        ({}, {"tp": 3}, "tp: expected a divisor of the 8 heads of tiny, found 3"),
        ({"heads": GroupedHeads(24, 6, 16)}, {"tp": 4}, "tp: expected a divisor or a multiple of"),
        ({}, {"tp": 2, "ep": 3}, "ep: expected a divisor of dp 1 times a divisor of tp 2, found 3"),
        ({"experts": Experts(6, 2, 64)}, {"tp": 4, "ep": 4}, "ep: expected a divisor of the 6 exp"),
        ({"experts": Experts(8, 2, 60)}, {"tp": 8}, "tp: expected a divisor of the inner dim.* 60"),
        ({"experts": Experts(8, 2, 64, 60)}, {"tp": 8}, "tp: expected a divisor .* the shared"),
        ({"experts": None, "dense": Dense(64)}, {"dp": 2, "ep": 2}, "ep: expected 1, since tiny"),
        ({"experts": None, "dense": Dense(60)}, {"tp": 8}, "tp: expected a divisor of the inner"),
        ({}, {"dp": 9}, "dp: expected a request for each group at least, found 8 requests"),
        ({}, {"tp": 2, "tile_inter": 64}, "tile_inter: expected a divisor of the inner .* 32"),
        ({}, {"tp": 2, "ep": 2, "expert_regions": 3}, "expert_regions: .* of the 4 exp"),
        ({"heads": GroupedHeads(6, 6, 16)}, {"tp": 6}, "tp: expected a divisor of the width 64"),
        ({}, {"collective": "direct"}, "collective: has no effect, since chips have no sums"),
        (
            {"heads": GroupedHeads(12, 12, 16), "model_dim": 96},
            {"tp": 3, "collective": "halving-doubling"},
            "collective: halving-doubling needs a power of two as tp, found 3",
        ),
        ({"vocabulary": 97}, {"part": "layer+head", "tp": 2}, "tp: expected a divisor of the 97"),
        ({}, {"part": "head", "ep": 2}, "ep: has no effect on the head alone"),
        ({}, {"part": "head", "dp": 9}, "dp: expected a request for each group at least, found 8"),
    ],
)  # fmt: skip
def test_bad_splits(changes: dict[str, Any], given: dict[str, Any], message: str) -> None:
    changes = {"heads": HEADS, "experts": EXPERTS} | changes
    dim = changes.pop("model_dim", 64)
    usual = {} if given.get("part") == "head" else USUAL
    model = replace(model_of(**changes), model_dim=dim)
    with pytest.raises(ParameterError, match=message):
        Step.of(**(usual | {"model": model} | given)).build(batch(step({}, {})))


@pytest.mark.parametrize(
    ("given", "chips", "message"),
    [
        (
            {"tp": 2, "dp": 2},
            None,
            "tp: expected a machine of 4 chips for tp 2 x dp 2, found one chip \\(sda",
        ),
        ({"dp": 8}, CHIPS, "dp: expected a machine of 8 chips for dp 8, found 4 chips"),
        ({"pp": 5}, CHIPS, "pp: expected a machine of 5 chips for pp 5, found 4 chips"),
    ],
)
def test_too_few_chips(given: dict[str, Any], chips: Chips | None, message: str) -> None:
    workload = step({}, given)
    machine = replace(load_machine("sda-1024"), chips=chips)
    with pytest.raises(ParameterError, match=message):
        workload.build_for(batch(workload), machine)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"tp": 4, "ep": 4}, {"tp": 2, "dp": 2, "ep": 4}, {"dp": 4}])
def test_a_run_on_four_chips(given: dict[str, Any]) -> None:
    workload = step({}, given | {"strategy": "dynamic"})
    data = batch(workload)
    numbers = Numbers(workload, data)
    built = workload.build_for(data, MACHINE)
    program = built.program
    result = simulate(program, MACHINE)
    assert result.status == "ok"
    received = {row["chip"]: row["received_bytes"] for row in result.chips().to_pylist()}
    assert sum(received.values()) == sum(sent(program).values())
    assert result.flops == program.metrics().bind(built.symbols(data)).flops
    tensors = tensors_of_chips(program, numbers)
    done = run_functional(program, tensors, machine=MACHINE, scalar="f32")
    rows = numbers.rows[workload.split.tokens(data, 0)]
    np.testing.assert_allclose(done.stored["output"], rows, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("tp", [3, 16])
def test_the_head_alone_divides_its_words_and_no_heads(tp: int) -> None:
    chips = replace(CHIPS, count=tp)
    machine = replace(MACHINE, chips=chips)
    model = model_of(heads=HEADS, experts=EXPERTS, vocabulary=96)
    data = Data.of(rows=8)
    work = {}
    for split in (1, tp):
        built = Step.of(model=model, part="head", tp=split).build_for(data, machine)
        run = simulate(built.program, machine)
        work[split] = sum(
            row["flops"] for row in run.units.to_pylist() if row["name"].startswith("matmul_head")
        )
    assert work[tp] == work[1] == 2 * 8 * D * 96


def test_the_routing_decides_a_program_on_several_chips() -> None:
    one, several = step({}, {}), step({}, {"dp": 2})
    data = batch(one)
    assert data.routing is not None
    other = replace(data, routing=data.routing[::-1].copy())
    assert one.program_key(data) == one.program_key(other)
    assert several.program_key(data) != several.program_key(other)


def test_a_program_without_data_has_an_even_choice() -> None:
    workload = step({}, {"dp": 2, "ep": 2})
    loads = {
        op.label: int(op.outputs[0].cardinality())
        for op in workload.build(Data.of(rows=8)).program.operators
        if op.label and op.label.startswith("unpack.")
    }
    assert loads == {f"unpack.{e}": 2 for e in range(8)}
    even = Data.of(rows=8)
    table = (np.arange(16) % 8).reshape(8, 2)
    given = Data.of(routing=table)
    padded = [
        step({}, {"dp": 2, "ep": 2, "tile": 4}).build(one).padded_flops(one)
        for one in (even, given)
    ]
    assert padded[0] == padded[1] > 0


def test_another_routing_than_that_of_the_program_is_refused() -> None:
    several, one = step({}, {"tp": 2, "ep": 2}), step({}, {})
    data = batch(several)
    assert data.routing is not None
    other = replace(data, routing=(data.routing + 1) % 8)
    assert several.build(data).bindings(replace(data, routing=data.routing.copy())) == {}
    with pytest.raises(
        ArgError, match=r"step: a program on several chips is for the routing.*anot"
    ):
        several.build(data).bindings(other)
    with pytest.raises(ArgError, match="an even choice; build it from these data"):
        several.build(replace(data, routing=None)).bindings(other)
    assert next(iter(one.build(data).bindings(other).values())) is other.routing
    dense = step({"experts": None, "dense": Dense(64)}, {"tp": 2})
    assert dense.build(data).bindings(other) == {}
