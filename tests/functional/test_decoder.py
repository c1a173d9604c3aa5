"""A decoder layer, whole and in parts, against direct numpy implementations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from stepsim.graph import Program
from stepsim.workloads import Decoder
from stepsim.workloads.models import (
    AttentionShape,
    Dense,
    Experts,
    GroupedHeads,
    LatentHeads,
    Model,
)
from tests.functional.references import Cache, Layer, close, served
from tests.functional.support import run_both
from tests.layers import built
from tests.samples import sampled_rows
from tests.workloads.support import used

D = 32
HEADS = GroupedHeads(4, 2, 8)
LENGTHS = [0, 3, 32, 31, 5, 40, 1, 64]
MODEL = Model("small", D, Experts(4, 2, 16), HEADS)
LATENT = {
    "direct": LatentHeads(4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8),
    "compressed": LatentHeads(4, 16, 8, 4, 8, q_lora_rank=12),
}
WHOLE = "norms+qkv+rotary+attention+output+residuals+router+experts"
STAGES = ("qkv", "attention", "output", "experts")
SUBSETS = [
    "+".join(stage for bit, stage in enumerate(STAGES) if chosen >> bit & 1)
    for chosen in range(1, 1 << len(STAGES))
]

Array = np.ndarray[Any, Any]


def rms(x: Array) -> Array:
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)


def rotated(x: Array, angles: Array) -> Array:
    """Columns i and i + h of the last axis are turned by angles ``[batch, h]``."""
    h = angles.shape[1]
    shape = (len(x), *[1] * (x.ndim - 2), h)
    cos, sin = np.cos(angles).reshape(shape), np.sin(angles).reshape(shape)
    a, b = x[..., :h], x[..., h:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


class Reference:
    """Random tensors of a layer, and what a program of some parts makes of them."""

    def __init__(self, model: Model, lengths: Sequence[int], parts: str) -> None:
        self.rng = np.random.default_rng(3)
        self.model, self.lengths, self.parts = model, list(lengths), parts.split("+")
        self.shape, self.batch = model.attention, len(lengths)
        self.tensors: dict[str, Array] = {}
        self.dense = model.experts is None
        moe = model.feed_forward
        self.indices = np.stack(
            [self.rng.permutation(moe.experts)[: moe.active] for _ in range(self.batch)]
        )
        self.layer = Layer(moe, self.indices)

    def normal(self, *size: int, over: int = 1) -> Array:
        return self.rng.normal(size=size).astype(np.float32) / np.sqrt(over, dtype=np.float32)

    def deal(
        self, label: str, tiles: Sequence[Array], *, stacked: bool = False, loads: int = 3
    ) -> None:
        """The tensors of loads that read the tiles of a matrix in turn."""
        join = np.vstack if stacked else np.hstack
        for k in range(min(loads, len(tiles))):
            self.tensors[f"{label}.{k}"] = join(tiles[k::loads])

    def columns(self, label: str, matrix: Array, width: int) -> None:
        self.deal(label, np.split(matrix, matrix.shape[1] // width, axis=1))

    def by_region(self, name: str, rows: Array, regions: int) -> None:
        for r in range(min(self.batch, regions)):
            self.tensors[f"{name}.{r}"] = np.ascontiguousarray(rows[r::regions])

    def generated(self, x: Array, regions: int) -> tuple[Array, Array, Array]:
        """Queries ``[batch, KV heads, group, width]``, keys and values without the group."""
        heads, d = self.model.heads, self.model.model_dim
        width = heads.qk_rope_head_dim if isinstance(heads, LatentHeads) else self.shape.head_dim
        angles = np.outer(self.lengths, 100.0 ** (-2 * np.arange(width // 2) / width))
        turn = rotated if "rotary" in self.parts else lambda rows, _: rows
        if "rotary" in self.parts:
            self.by_region("cos", np.cos(angles).astype(np.float32), regions)
            self.by_region("sin", np.sin(angles).astype(np.float32), regions)
        if isinstance(heads, GroupedHeads):
            kv, group = heads.kv_heads, heads.heads // heads.kv_heads
            weights = self.normal(d, kv, group + 2, width, over=d)
            weights[:, :, :group] /= 2  # small scores: rounding moves the weights of large ones far
            self.columns("qkv_weights", weights.reshape(d, -1), width)
            rows = np.einsum("bd,dhgw->bhgw", x, weights)
            turned = turn(rows[:, :, : group + 1], angles)
            return turned[:, :, :group], turned[:, :, group], rows[:, :, group + 1]
        assert isinstance(heads, LatentHeads)
        nope, rank, tile = heads.qk_nope_head_dim, heads.kv_lora_rank, 4
        source, latent = d, x
        kv_down = self.normal(d, rank + width, over=d)
        self.columns("kv_down_weights", kv_down, tile)
        if heads.q_lora_rank is not None:
            source = heads.q_lora_rank
            query_down = self.normal(d, source, over=d)
            self.columns("query_down_weights", query_down, 4)
            latent = x @ query_down
        query_up = self.normal(source, heads.heads, nope + width, over=16 * source)
        key_up = self.normal(heads.heads, nope, rank, over=nope)
        self.columns("query_up_weights", query_up.reshape(source, -1), tile)
        self.deal("key_up_weights", [t for up in key_up for t in np.split(up, rank // tile, 1)])
        query, rows = np.einsum("bs,shw->bhw", latent, query_up), x @ kv_down
        rope_q, rope_k = turn(query[:, :, nope:], angles), turn(rows[:, rank:], angles)
        # The scores are those of keys that are projected up, which the program never makes.
        keys = np.einsum("br,hnr->bhn", rows[:, :rank], key_up)
        absorbed = np.einsum("bhn,hnr->bhr", query[:, :, :nope], key_up)
        np.testing.assert_allclose(
            np.einsum("bhr,br->bh", absorbed, rows[:, :rank]),
            np.einsum("bhn,bhn->bh", query[:, :, :nope], keys), rtol=1e-3, atol=1e-3,
        )  # fmt: skip
        queries = np.concatenate([absorbed, rope_q], axis=2)[:, None]
        key = np.concatenate([rows[:, :rank], rope_k], axis=1)[:, None]
        return queries, key, rows[:, None, :rank]

    def projected(self, attended: Array) -> Array:
        """Outputs of all heads ``[batch, heads, width]`` to rows of the model."""
        heads, width, tile = self.model.heads, self.shape.value_width, 8
        if isinstance(heads, LatentHeads):
            up = self.normal(heads.heads, width, heads.v_head_dim, over=width)
            self.deal("value_up_weights", list(up))
            attended, width = np.einsum("bhr,hrv->bhv", attended, up), heads.v_head_dim
        flat = attended.reshape(self.batch, -1)
        weights = self.normal(flat.shape[1], self.model.model_dim, over=flat.shape[1])
        self.deal("output_weights", np.split(weights, len(weights) // tile), stacked=True)
        return flat @ weights

    def fed(self, rows: Array, expert_regions: int | None) -> Array:
        """The results of experts or the dense network."""
        x, d = rows, self.model.model_dim
        if "norms" in self.parts:
            factors = self.normal(1, d)
            self.tensors["experts_norm"] = factors
            x = rms(rows) * factors
        self.layer.x = x
        if self.dense:
            self.layer.scales = np.ones((self.batch, 1), np.float32)
        elif "router" in self.parts:
            matrix = self.normal(d, self.layer.shape.experts, over=d)
            self.tensors["router_weights.0"] = matrix
            chosen = np.exp(np.take_along_axis(x @ matrix, self.indices, axis=1))
            self.layer.scales = chosen / chosen.sum(axis=1, keepdims=True)
        found = (
            self.layer.per_expert()
            if expert_regions is None
            else self.layer.per_region(expert_regions)
        )
        loaded = {"activations"} if self.first("experts") else set()
        scales = {"router_scales"} if not self.dense and "router" not in self.parts else set()
        apart = {"activations", "router_scales"} - loaded - scales
        self.tensors |= {k: v for k, v in found.items() if k not in apart}
        if loaded:
            self.tensors["activations"] = rows
        out = self.layer.expected()
        return out + rows if "residuals" in self.parts else out

    def first(self, stage: str) -> bool:
        """Whether the stage reads what the one before it left off chip."""
        at = STAGES.index(stage)
        return at > 0 and STAGES[at - 1] not in self.parts


def check(
    model: Model = MODEL,
    lengths: Sequence[int] = tuple(LENGTHS),
    *,
    parts: str = WHOLE,
    strategy: str = "interleaved",
    tile: int | str = 4,
    expert_regions: int | None = None,
    regions: int = 4,
    scalar: str = "f32",
) -> Program:
    """What a program of some parts stores is what numpy computes; returns the program."""
    ref = Reference(model, lengths, parts)
    shape, batch, tensors = ref.shape, ref.batch, ref.tensors
    kv, group, tasks = shape.kv_heads, shape.queries_per_kv_head, shape.kv_heads * len(lengths)
    given = {
        "tile": tile, "tile_inter": 8, "strategy": strategy, "expert_regions": expert_regions,
        "attention_regions": regions, "weight_loads": 3,
    }  # fmt: skip
    work, bindings = built(
        Decoder, routing=ref.indices, kv_lengths=lengths,
        **used(Decoder, given, {"model": model, "parts": parts}),
    )  # fmt: skip
    program, stored = work.program, {}

    hidden = ref.normal(batch, model.model_dim)
    residual = "residuals" in ref.parts and "output" in ref.parts
    if "qkv" in ref.parts or residual:
        ref.by_region("hidden", hidden, regions)
    generated: tuple[Array, Array, Array] | None = None
    if "qkv" in ref.parts:
        x = hidden
        if "norms" in ref.parts:
            tensors["attention_norm"] = ref.normal(1, model.model_dim)
            x = rms(hidden) * tensors["attention_norm"]
        generated = ref.generated(x, regions)
    elif "attention" in ref.parts:
        generated = (
            ref.normal(batch, kv, group, shape.head_dim, over=16),
            ref.normal(batch, kv, shape.head_dim), ref.normal(batch, kv, shape.value_width),
        )  # fmt: skip
    if generated is not None and not ("qkv" in ref.parts and "attention" in ref.parts):
        target = tensors if "attention" in ref.parts else stored
        for name, rows in zip(("query", "key", "value"), generated, strict=True):
            for r in range(min(batch, regions)):
                by_head = np.moveaxis(rows[r::regions], 1, 0)
                target[f"{name}.{r}"] = by_head.reshape(-1, by_head.shape[-1])

    cache, attended = None, None
    if "attention" in ref.parts:
        assert generated is not None
        (store,) = [op for op in program.operators if op.label == "store_key.0"]
        cache = Cache(list(lengths) * kv, store.tensor.shape[0] // tasks, shape)
        cache.caches = {what: full / 4 for what, full in cache.caches.items()}
        query, key, value = (
            np.moveaxis(rows, 1, 0).reshape(tasks, *rows.shape[2:]) for rows in generated
        )
        cache.query, cache.rows = query, {"key": key, "value": value}
        outputs = cache.expected()
        attended = np.moveaxis(outputs.reshape(kv, batch, group, -1), 0, 1)
        attended = attended.reshape(batch, shape.heads, -1)
        for r in range(_attending(program)):
            for what, full in cache.caches.items():
                tensors[f"cache_{what}.{r}"] = full.reshape(-1, full.shape[-1])
    elif "output" in ref.parts:
        attended = ref.normal(batch, shape.heads, shape.value_width)
        ref.by_region("attended", attended.reshape(batch, -1), regions)
    rows = None
    if "output" in ref.parts:
        assert attended is not None
        rows = ref.projected(attended) + (hidden if residual else 0)
        if "experts" not in ref.parts:
            stored |= {f"layer_rows.{r}": rows[r::regions] for r in range(min(batch, regions))}
    if "experts" in ref.parts:
        stored["output"] = ref.fed(
            ref.normal(batch, model.model_dim) if rows is None else rows, expert_regions
        )

    result = run_both(program, tensors, bindings=bindings, scalar=scalar)
    for name, want in stored.items():
        close(result.stored[name].reshape(want.shape), want, scalar)
    if cache is not None:
        _check_attention(program, result, cache, shape, scalar, "output" not in ref.parts)
    return program


def _attending(program: Program) -> int:
    return sum(str(op.label).startswith("addresses_key.") for op in program.operators)


def _check_attention(
    program: Program, result: Any, cache: Cache, shape: AttentionShape, scalar: str, ends: bool
) -> None:
    """Every task was served once; caches have their new rows, and outputs are stored at the end."""
    expected, tasks = cache.expected(), len(cache.lengths)
    lanes = served(program, result, _attending(program))
    assert sorted(t for lane in lanes for t in lane) == list(range(tasks))
    for r, lane in enumerate(lanes):
        if ends:
            output = result.stored[f"output.{r}"].reshape(expected.shape)
            close(output[lane], expected[lane], scalar)
        for what in ("key", "value"):
            updated = result.stored[f"cache_{what}.{r}"].reshape(tasks, cache.reserved, -1)
            close(updated[lane], cache.grown(what)[lane], scalar)


DECODERS = [
    (*how, *what)
    for how in [("interleaved", 4, None), ("dynamic", "dynamic", 2), ("dynamic", 8, None)]
    for what in [(WHOLE, "f32"), (WHOLE, "bf16"), ("qkv+attention+experts", "bf16")]
]


# Each choice of tiles once, and once each choice of parts.
@pytest.mark.parametrize(
    ("strategy", "tile", "expert_regions", "parts", "scalar"), sampled_rows(DECODERS, DECODERS[::4])
)
def test_decoder_layer(
    strategy: str, tile: int | str, expert_regions: int | None, parts: str, scalar: str
) -> None:
    check(strategy=strategy, tile=tile, expert_regions=expert_regions, parts=parts, scalar=scalar)


TOGETHER = [
    (stages, strategy)
    for stages in SUBSETS
    for strategy in ("interleaved", "dynamic")
    if "attention" in stages or strategy == "dynamic"
]


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "strategy"), sampled_rows(TOGETHER, TOGETHER[::2]))
def test_stages_alone_and_together(stages: str, strategy: str) -> None:
    check(parts=stages, strategy=strategy)


@pytest.mark.parametrize(
    "without", ["norms", "rotary", "residuals", "router", "norms+residuals+router"]
)
def test_without_what_surrounds_the_stages(without: str) -> None:
    left = [name for name in WHOLE.split("+") if name not in without.split("+")]
    check(parts="+".join(left))


@pytest.mark.parametrize("parts", ["norms+residuals+router+experts", "norms+experts", "norms+qkv"])
def test_parts_of_one_stage(parts: str) -> None:
    check(parts=parts)


@pytest.mark.parametrize("tile", [4, "dynamic"])
def test_a_dense_network_has_no_router(tile: int | str) -> None:
    check(
        Model("small", D, heads=HEADS, dense=Dense(16)),
        tile=tile,
        parts=WHOLE.replace("+router", ""),
    )


@pytest.mark.parametrize("tile", [4, "dynamic"])
def test_a_shared_expert(tile: int | str) -> None:
    check(Model("small", D, Experts(4, 2, 16, shared_inner=8), HEADS), tile=tile)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
@pytest.mark.parametrize(
    ("requests", "regions", "generating", "attending"),
    [(7, 3, 3, 3), (5, 4, 4, 4), (3, 8, 3, 6), (1, 4, 1, 2), (3, 1, 1, 1)],
)
def test_any_number_of_requests(
    requests: int, regions: int, generating: int, attending: int, strategy: str
) -> None:
    """Two tasks of a request, one for each KV head, may go to two regions of attention."""
    program = check(lengths=LENGTHS[:requests], regions=regions, strategy=strategy)
    labels = [op.label for op in program.operators]
    assert sum(str(label).startswith("matmul_qkv.") for label in labels) == generating
    assert _attending(program) == attending


@pytest.mark.parametrize(
    ("parts", "scalar"), [(WHOLE, "f32"), (WHOLE, "bf16"), ("qkv+attention+experts", "bf16")]
)
@pytest.mark.parametrize("heads", LATENT.values(), ids=LATENT)
def test_latent_attention(heads: LatentHeads, parts: str, scalar: str) -> None:
    check(Model("small", D, Experts(4, 2, 16), heads), parts=parts, scalar=scalar)


def test_values_of_one_load_and_of_one_for_each_tile() -> None:
    shapes: Mapping[int, list[int]] = {loads: _rows_of_loads(loads) for loads in (1, 5, 16, 1000)}
    assert {loads: len(rows) for loads, rows in shapes.items()} == {1: 1, 5: 5, 16: 8, 1000: 8}
    assert {sum(rows) for rows in shapes.values()} == {8 * 8}


def _rows_of_loads(loads: int) -> list[int]:
    """Columns of the QKV weights that each load reads, of 2 x 4 heads of 8 columns."""
    work, _ = built(
        Decoder, routing=[[0, 1]], kv_lengths=[3], model=MODEL, tile=4, tile_inter=8,
        strategy="interleaved", weight_loads=loads,
    )  # fmt: skip
    return [
        op.tensor.shape[1]
        for op in work.program.operators
        if str(op.label).startswith("load_qkv_weights.")
    ]
