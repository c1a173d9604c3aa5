"""The workloads against direct numpy implementations, and token by token against their timing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.functional import evaluate
from stepsim.simulation import prepare, run_functional
from stepsim.workloads import Attention, Moe, Swiglu
from stepsim.workloads.models import AttentionShape, MoEShape
from tests.functional.references import Cache, Layer, close, served, silu, tensors_of
from tests.functional.support import run_both
from tests.layers import built
from tests.property_profile import profile
from tests.samples import sampled


def layer(
    batch: int, experts: int, active: int, d: int, f: int, used: int, shared: int = 0
) -> Layer:
    """Rows go to the first ``used`` experts only; the others stay idle."""
    rng = np.random.default_rng(batch)
    indices = np.stack([rng.permutation(used)[:active] for _ in range(batch)])
    return Layer(MoEShape("small", experts, active, d, f, shared), indices)


def moe(made: Layer, tile: int | str, regions: int | None = None) -> tuple[Any, Any]:
    return built(
        Moe, routing=made.indices, model=made.shape, tile=tile, tile_inter=16, regions=regions
    )


LAYERS = {
    "idle": (10, 6, 2, 16, 32, 4),
    "one row": (1, 4, 1, 16, 32, 4),
    "one expert": (9, 4, 1, 16, 32, 1),
    "all": (24, 4, 4, 16, 32, 4),
    "mid": (64, 16, 4, 64, 128, 14),
    "shared": (10, 4, 2, 16, 32, 4, 48),
}


@pytest.mark.slow
@pytest.mark.parametrize("scalar", sampled(["f32", "bf16"], "bf16"))
@pytest.mark.parametrize("tile", sampled([1, 4, 8, "dynamic"], 4, "dynamic"))
@pytest.mark.parametrize("name", LAYERS)
def test_moe(name, tile, scalar):
    made = layer(*LAYERS[name])
    work, bindings = moe(made, tile)
    result = run_both(work.program, made.per_expert(), bindings=bindings, scalar=scalar)
    close(result.stored["output"], made.expected(), scalar)


def test_padding_rows_are_computed_but_never_arrive():
    made = layer(*LAYERS["idle"])
    work, bindings = moe(made, 4)
    result = run_functional(work.program, made.per_expert(), bindings=bindings, scalar="f32")
    by_label = {op.label: op for op in work.program.operators}
    for e in range(made.shape.experts):
        rows = int((made.indices == e).sum())
        blocks = [t.payload for t in result.stream(by_label[f"pack.{e}"].outputs[0])]
        assert len(blocks) == -(-rows // 4)
        assert sum(b.valid for b in blocks) == rows
        assert all(not b.data[b.valid :].any() for b in blocks)
        assert len(result.stream(by_label[f"unpack.{e}"].outputs[0])) == rows


def test_the_order_of_arrival_changes_rounding_only():
    """Experts of one row are added in the order in which they finish."""
    made = layer(*LAYERS["all"])
    work, bindings = moe(made, "dynamic")
    decisions = prepare(work.program).decisions(bindings)
    (orders,) = decisions.joins.values()
    assert any(order != tuple(sorted(order)) for order in orders)
    sums = {}
    for name in ("recorded", "ascending"):
        replayed = decisions
        if name == "ascending":
            (op,) = decisions.joins
            plain = tuple(tuple(sorted(order)) for order in orders)
            replayed = type(decisions)({}, {op: plain})
        sums[name] = evaluate(
            work.program, made.per_expert(), bindings=bindings, decisions=replayed, scalar="f32"
        ).stored["output"]
    assert not np.array_equal(sums["recorded"], sums["ascending"])
    close(sums["recorded"], sums["ascending"], "f32")


@pytest.mark.parametrize("scalar", sampled(["f32", "bf16"], "bf16"))
@pytest.mark.parametrize("tile", [4, "dynamic"])
@pytest.mark.parametrize("regions", [1, 2, 4, 8])
def test_time_multiplexed_moe(regions, tile, scalar):
    made = layer(20, 8, 2, 16, 32, 6)
    work, bindings = moe(made, tile, regions)
    tensors = made.per_expert() if regions == 8 else made.per_region(regions)
    result = run_both(work.program, tensors, bindings=bindings, scalar=scalar)
    close(result.stored["output"], made.expected(), scalar)


@pytest.mark.parametrize("scalar", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("batch", "hidden", "inner", "tile", "tile_inter"),
    [(8, 16, 32, 4, 8), (8, 16, 32, 8, 32), (4, 8, 8, 1, 1), (64, 64, 128, 16, 64)],
)
def test_swiglu(batch, hidden, inner, tile, tile_inter, scalar):
    rng = np.random.default_rng(batch)
    x = rng.normal(size=(batch, hidden)).astype(np.float32)
    gate, up = (rng.normal(size=(hidden, inner)).astype(np.float32) for _ in range(2))
    down = rng.normal(size=(inner, hidden)).astype(np.float32)
    work, _ = built(
        Swiglu, batch=batch, hidden=hidden, intermediate=inner, tile=tile, tile_inter=tile_inter
    )
    tensors = {"activations": x, "gate": gate, "up": up, "down": down}
    result = run_both(work.program, tensors, machine="sda-hdl", scalar=scalar)
    close(result.stored["output"], (silu(x @ gate) * (x @ up)) @ down, scalar)


SHAPE = AttentionShape("small", 64, 4, 1, 16)
LATENT = AttentionShape("latent", 64, 4, 1, 24, 16)
"""Keys wider than values."""

LENGTHS = {
    "edges": [0, 1, 31, 32, 33, 64, 5, 95],
    "one token": [0, 0, 0, 0],
    "full tiles": [32, 64, 96, 32, 96, 64, 32, 96],
    "uneven": [7, 300, 1, 0, 64, 2, 150, 3, 31, 32, 63, 100],
}


STRATEGIES = ["coarse", "interleaved", "dynamic"]


@pytest.mark.parametrize("scalar", sampled(["f32", "bf16"], "bf16"))
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", [*LENGTHS, "latent"])
def test_attention(name, strategy, scalar):
    shape = LATENT if name == "latent" else SHAPE
    attends(shape, LENGTHS.get(name, LENGTHS["edges"]), strategy, 4, scalar)


@profile(15, 300)
@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=9),
    st.integers(1, 5), st.sampled_from(STRATEGIES),
)  # fmt: skip
def test_attention_of_any_number_of_requests(lengths, regions, strategy):
    attends(SHAPE, lengths, strategy, regions, "f32")


def attends(
    shape: AttentionShape, lengths: list[int], strategy: str, regions: int, scalar: str
) -> None:
    """Outputs and caches of all regions are those of numpy, tokens those of the timing run."""
    work, _ = built(Attention, kv_lengths=lengths, model=shape, strategy=strategy, regions=regions)
    cache = Cache(lengths, work.parameters["max_length"], shape)
    tensors = tensors_of(work.program, cache, work.lanes)
    result = run_both(work.program, tensors, scalar=scalar)
    lanes = served(work.program, result, len(work.lanes))
    assert sorted(i for lane in lanes for i in lane) == list(range(len(lengths)))
    expected = cache.expected()
    grown = {what: cache.grown(what) for what in ("key", "value")}
    for r, lane in enumerate(lanes):
        output = result.stored[f"output.{r}"].reshape(expected.shape)
        close(output[lane], expected[lane], scalar)
        others = [i for i in range(len(lengths)) if i not in lane]
        assert not output[others].any()
        for what, full in grown.items():
            updated = result.stored[f"cache_{what}.{r}"].reshape(full.shape)
            wanted = cache.caches[what].copy()
            wanted[lane] = full[lane]
            np.testing.assert_array_equal(updated, wanted.astype(updated.dtype))


def test_dynamic_attention_serves_in_order_of_release():
    """A region with a long request gets fewer of them than round robin would give it."""
    lengths = [320, 0, 0, 0, *([0] * 8)]
    work, _ = built(Attention, kv_lengths=lengths, model=SHAPE, strategy="dynamic", regions=4)
    cache = Cache(lengths, work.parameters["max_length"], SHAPE)
    result = run_both(work.program, tensors_of(work.program, cache, work.lanes), scalar="f32")
    lanes = served(work.program, result, 4)
    assert len(lanes[0]) < 3
    assert sum(map(len, lanes)) == 12
