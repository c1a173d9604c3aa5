"""The flow: what it decides is simulated, sized FIFOs neither deadlock nor slow a design down."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

import stepsim as st
from stepsim.design import Choices, GraphBuilder, Sizing
from stepsim.design.operators.models.blocks import block
from stepsim.design.search import fifo_planning
from stepsim.errors import CompileError
from tests.design.search.small import SIZES, small
from tests.samples import sampled

MODELS = ("gpt2-medium", "qwen2.5-0.5b", "tinyllama-1.1b", "gemma-3-1b")


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize(
    "sizing", sampled(["lp", "normal", "conservative", "recorded", "unbounded"], "lp")
)
def test_sized_designs_keep_the_speed_of_unbounded_fifos(phase: str, sizing: Sizing) -> None:
    compiled = small(phase, sizing=sizing)
    for group, result in zip(compiled.plan.groups, compiled.results(), strict=True):
        assert result.status == "ok"
        assert group.unbounded is not None
        assert result.cycles == group.simulated <= group.unbounded * 1.005


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "phase"), list(zip(MODELS, cycle(["prefill", "decode"]), strict=False))
)
def test_whole_blocks_keep_the_speed_of_unbounded_fifos(model: str, phase: str) -> None:
    # Shrinking with fewer runs than by default leaves FIFOs larger, and all else as it is.
    runs = Choices.runs if (model, phase) == ("gpt2-medium", "prefill") else 20
    compiled = st.compile(model, phase=phase, runs=runs)
    (group,), (result,) = compiled.plan.groups, compiled.results()
    assert result.status == "ok"
    assert group.unbounded is not None
    assert result.cycles == group.simulated <= group.unbounded * 1.005
    assert group.fifo_bytes is not None
    # Weights wait behind their loads, of TinyLlama 13 MB of them.
    assert group.fifo_bytes < compiled.plan.machine.onchip.capacity_bytes


@pytest.mark.slow
def test_shrinking_saves_bytes() -> None:
    sized, unbounded = small(), small(sizing="unbounded")
    assert sized.plan.fifo_bytes is not None
    assert unbounded.plan.fifo_bytes is not None
    assert sized.plan.fifo_bytes < unbounded.plan.fifo_bytes
    planned = st.compile("gpt2-medium", phase="prefill", shrink=False, **SIZES).plan
    assert planned.fifo_bytes is not None
    assert sized.plan.fifo_bytes < planned.fifo_bytes


@pytest.mark.slow
def test_groups_add_up() -> None:
    compiled = small("prefill", 600)
    assert len(compiled.plan.groups) == 3
    assert compiled.plan.simulated == compiled.cycles == sum(r.cycles for r in compiled.results())
    for row in compiled.to_dict()["groups"]:
        assert row["converter_bytes"] <= 600


@pytest.mark.slow
def test_every_pass_can_be_printed_before_and_after() -> None:
    names = [one.name for one in small().passes]
    assert names[:8] == [
        "fold_unit_dims", "fuse_elementwise", "tile", "unroll", "permute", "kernels_of",
        "share_converters", "fuse_kernels",
    ]  # fmt: skip
    text = small().passes_text()
    assert all(f"== after {name}\n" in text for name in names)
    assert small().passes[-1].after == small().plan.graph


@pytest.mark.slow
def test_kernels_are_measured_alone() -> None:
    compiled = small()
    for kernel in compiled.plan.graph.kernels:
        found = compiled.plan.measured[kernel.name]
        assert found.tokens == kernel.output.itensor.tokens
        # A cycle for every hop within the kernel at most, beside its work; a causal mask has none.
        if kernel.op.kind == "generic":
            assert kernel.d <= found.first <= kernel.d + 12
        assert found.length >= found.first


def test_pauses_of_a_reduction_are_not_in_its_interval() -> None:
    """Its results wait until the last turn, and then leave in a row."""
    compiled = small()
    rows = [k for k in compiled.plan.graph.kernels if k.kept and k.turns > 1]
    found = [compiled.plan.measured[kernel.name] for kernel in rows]
    pauses = [(kernel, one) for kernel, one in zip(rows, found, strict=True) if kernel.ii > 8]
    assert len(pauses) > 3
    for kernel, one in pauses:
        assert one.interval < kernel.ii / 2, kernel.name


def test_the_prediction_is_near() -> None:
    plan = small().plan
    assert plan.predicted is not None
    assert plan.unbounded is not None
    assert abs(plan.predicted / plan.unbounded - 1) < 0.1


@pytest.mark.slow
def test_values_of_a_compiled_block_are_those_of_its_graph() -> None:
    rng = np.random.default_rng(1)
    graph = block("gpt2-medium", "decode", dtype="f32", weight_dtype="f32", **SIZES)
    values = {
        tensor.name: rng.normal(size=tensor.shape).astype(np.float32) * 0.3
        for tensor in graph.with_role("input", "weight", "state")
    }
    expected = graph.evaluate(values)
    compiled = st.compile(graph, budget=600, runs=0)
    found = dict(values)
    for made in compiled.plan.programs(values):
        ran = st.run_functional(made.program, made.tensors(found), scalar="f32")
        found |= made.results(ran.stored)
    for name in graph.outputs:
        made_of = np.asarray(found[name]).reshape(expected[name].shape)  # unit dims are folded
        np.testing.assert_allclose(made_of, expected[name], atol=1e-4)


def test_a_graph_of_a_user_compiles() -> None:
    b = GraphBuilder("mlp", "i8", "i4")
    x = b.input("x", (8, 32))
    b.output(b.silu(b.linear(x, b.weight("w", (64, 32)))), "y")
    compiled = st.compile(b.graph(), tile=8, unroll=64)
    assert compiled.plan.simulated == compiled.cycles


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"sizing": "lps"}, "sizing: expected one of .* found 'lps'; did you mean 'lp'"),
        ({"tile": 0}, "tile: expected a whole number from 1, found 0"),
        ({"unroll": 3}, "unroll budget of 3"),
        ({"machine": "sda-1024"}, "does not state onchip.capacity_bytes"),
        ({"max_slowdown": -1}, "max_slowdown: expected a number from 0 to 1000, found -1"),
        ({"fusion": "merged"}, "did you mean 'merge'"),
        ({"fusion": "x"}, "fusion: expected one of merge, greedy, exhaustive, found 'x'"),
        ({"unrolling": "x"}, "unrolling: expected one of heap_skip, heap_stop, exact, found 'x'"),
        ({"runs": -1}, "runs: expected a whole number from 0, found -1"),
        ({"placed": "yes"}, "placed: expected true or false, found 'yes'"),
        ({"packed": "no"}, "packed: expected true or false, found 'no'"),
        ({"folded": 1}, "folded: expected true or false, found 1"),
        ({"predict": None}, "predict: expected true or false, found None"),
        ({"keep_going": 1}, "keep_going must be True or False"),
        ({"keep_going": True}, "keep_going .* only where a PyTorch .* found .gpt2-medium"),
        ({"vectors": "wide"}, "vectors: expected 'tile', 'narrow' or"),
        ({"vectors": {"x": 4}}, r"\{edge: \(rows, columns\)\}, found"),
        ({"tiles": {"mlp.up.linear": 8}}, r"tiles: expected \{operator: \{dim: step\}\}, found"),
        ({"orders": 5}, r"orders: expected \{operator: dims\}, found 5"),
        ({"reuse_bytes": 1.5}, "reuse_bytes: expected a whole number from 0"),
        ({"tilee": 8}, "no argument 'tilee'; did you mean 'tile'"),
        ({"contxt": 8}, "no argument 'contxt'; did you mean 'context'"),
        ({"tokens": 0}, "tokens: expected a whole number from 1, found 0"),
        ({"fifo": "lp"}, "no argument 'fifo'; it is now called 'sizing'"),
        ({"slowdown": 0.1}, "no argument 'slowdown'; it is now called 'max_slowdown'"),
        ({"guard": False}, "gpt2-medium.* has no experts; leave guard out"),
        ({"choices": {"tile": 8}}, "choices: expected stepsim.design.Choices"),
    ],
)
def test_mistakes_are_reported(arguments: dict[str, object], wanted: str) -> None:
    with pytest.raises((st.errors.CompileError, st.errors.ArgError), match=wanted):
        st.compile("gpt2-medium", **{**SIZES, **arguments})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["i64", "i32", "bool"])
def test_whole_numbers_as_data_are_refused_by_name(dtype: str) -> None:
    g = GraphBuilder("small", "f32")
    g.output(g.mul(g.input("x", (4, 8)), g.input("n", (4, 8), dtype)), "y")
    said: list[str] = []
    with pytest.raises(CompileError, match=f"operator 'mul'.* the input 'n' of {dtype}, which"):
        st.compile(g.graph(), progress=said.append)
    assert not said  # before any work


def test_whole_numbers_choose_rows() -> None:
    g = GraphBuilder("rows", "f32")
    g.output(g.embedding(g.input("ids", (4,), "i64"), g.weight("table", (16, 8))), "y")
    assert st.compile(g.graph(), placed=False, shrink=False).plan.simulated


def test_a_design_that_is_not_placed_says_the_way_out() -> None:
    """It fits the bytes of the machine, but its wide words take more blocks than there are."""
    g = GraphBuilder("wide", "f32")
    g.output(g.linear(g.input("x", (64, 64)), g.weight("w", (64, 64))), "y")
    few = {"device.lutram_blocks": 64, "device.bram_blocks": 64, "device.uram_blocks": 64}
    target = st.load_machine("u55c", few)
    why = st.compile(g.graph(), target, tile=64, fit=False, shrink=False).plan.infeasible
    assert why is not None
    assert why.endswith("placed=False (--no-placed) leaves the placement on the device out")
    plan = st.compile(g.graph(), target, tile=64, fit=False, shrink=False, placed=False).plan
    assert plan.infeasible is None


@pytest.mark.slow
def test_times_of_a_request() -> None:
    prefill, decode = small().plan, small("decode").plan
    made = st.design.request(prefill, decode, 32, overhead_ms=1.5)
    assert prefill.simulated is not None
    assert decode.simulated is not None
    assert made.ttft_ms == pytest.approx(24 * prefill.simulated / 250_000)
    output = 1.5 + 32 * 24 * decode.simulated / 250_000
    assert made.latency_ms == pytest.approx(made.ttft_ms + output)
    assert made.tokens_per_second == pytest.approx(32_000 / output)
    with pytest.raises(st.errors.ArgError, match="phases prefill and decode"):
        st.design.request(decode, prefill, 32)
    pair = st.compile("gpt2-medium", phase="decode", tokens=2, runs=0, **SIZES).plan
    assert pair.simulated is not None
    half = 32 * 24 * pair.simulated / 250_000 / 2
    assert st.design.request(prefill, pair, 32).tokens_per_second == pytest.approx(32_000 / half)
    other = st.compile("gpt2-medium", phase="decode", runs=0, **{**SIZES, "inner": 64}).plan
    with pytest.raises(st.errors.ArgError, match="weights of other shapes"):
        st.design.request(prefill, other, 32)
    two = st.compile("gpt2-medium", phase="decode", runs=0, batch=2, **SIZES).plan
    with pytest.raises(
        st.errors.ArgError, match="1 requests at a time in prefill and 2 in decoding"
    ):
        st.design.request(prefill, two, 32)
    with pytest.raises(st.errors.ArgError, match="overhead_ms must be a number from 0, found nan"):
        st.design.request(prefill, decode, 32, overhead_ms=float("nan"))


@pytest.mark.slow
def test_a_prediction_of_too_many_steps_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fifo_planning, "MOST_STEPS", 100)
    plan = st.compile("gpt2-medium", runs=0, **SIZES).plan
    assert plan.predicted is None
    assert plan.simulated is not None


@pytest.mark.slow
def test_depths_that_only_end_are_fewer() -> None:
    compiled = st.compile("gpt2-medium", max_slowdown=1000, **SIZES)
    assert compiled.plan.fifo_bytes is not None
    assert small().plan.fifo_bytes is not None
    assert compiled.plan.fifo_bytes < small().plan.fifo_bytes
    assert st.design.Plan.from_yaml(compiled.plan.to_yaml()) == compiled.plan
