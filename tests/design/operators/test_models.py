"""Blocks of the four models against plain numpy, hand counts and published sizes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from stepsim.design import MODELS, OperatorGraph, block, fold_unit_dims, whole_model
from stepsim.errors import CompileError, StepSimError

PHASES = ("prefill", "decode")
SMALL = {
    "gpt2-medium": {"hidden": 48, "inner": 80, "heads": 4, "kv_heads": 4, "head_dim": 12},
    "qwen2.5-0.5b": {"hidden": 56, "inner": 72, "heads": 6, "kv_heads": 2, "head_dim": 8},
    "tinyllama-1.1b": {"hidden": 64, "inner": 88, "heads": 8, "kv_heads": 2, "head_dim": 8},
    "gemma-3-1b": {"hidden": 40, "inner": 96, "heads": 4, "kv_heads": 1, "head_dim": 16},
}


def drawn(graph: OperatorGraph, seed: int = 0) -> dict[str, Any]:
    """Values of what a graph reads from off chip, of usual sizes for a model."""
    random = np.random.default_rng(seed)
    values = {}
    for tensor in graph.with_role("input", "weight", "state"):
        scale = tensor.shape[-1] ** -0.5 if tensor.role == "weight" else 1.0
        values[tensor.name] = random.normal(size=tensor.shape) * scale
    if "cos" in values:
        angles = random.uniform(0, 6, values["cos"].shape)
        values["cos"], values["sin"] = np.cos(angles), np.sin(angles)
    return values


# The models once more, written as their papers and files have them.


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def tanh_gelu(x: Any) -> Any:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def layer_norm(x: Any, v: dict[str, Any], name: str, eps: float = 1e-5) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    root = np.sqrt((centered**2).mean(-1, keepdims=True) + eps)
    return centered / root * v[f"{name}.weight"] + v[f"{name}.bias"]


def rms(x: Any, w: Any, eps: float) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """rotate_half of Hugging Face, for one head [tokens, width]."""
    half = x.shape[1] // 2
    rotated = np.concatenate([-x[:, half:], x[:, :half]], 1)
    return x * np.concatenate([cos, cos], 1) + rotated * np.concatenate([sin, sin], 1)


def attention(q: Any, k: Any, v: Any, heads: int, groups: int, window: int | None = None) -> Any:
    """Head by head and query by query, of [tokens, heads * width]."""
    tokens, keys = len(q), len(k)
    width = q.shape[1] // heads
    out = np.zeros_like(q)
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        group = head // (heads // groups)
        shared = slice(group * width, (group + 1) * width)
        for i in range(tokens):
            last = keys - tokens + i
            first = 0 if window is None else max(0, last - window + 1)
            seen = slice(first, last + 1)
            scores = k[seen, shared] @ q[i, own] / math.sqrt(width)
            out[i, own] = softmax(scores) @ v[seen, shared]
    return out


def per_head(f: Any, x: Any, heads: int) -> Any:
    return np.concatenate([f(part) for part in np.split(x, heads, 1)], 1)


def joined(v: dict[str, Any], name: str, new: Any) -> Any:
    return np.concatenate([v[f"{name}_cache"], new]) if f"{name}_cache" in v else new


def gpt2(v: dict[str, Any], heads: int, groups: int) -> Any:
    h = layer_norm(v["x"], v, "attn_norm")
    q, k, w = (h @ v[f"{n}.weight"].T + v[f"{n}.bias"] for n in "qkv")
    out = attention(q, joined(v, "k", k), joined(v, "v", w), heads, groups)
    x = v["x"] + out @ v["o.weight"].T + v["o.bias"]
    h = layer_norm(x, v, "mlp_norm")
    h = tanh_gelu(h @ v["up.weight"].T + v["up.bias"])
    return x + h @ v["down.weight"].T + v["down.bias"], k, w


def llama(v: dict[str, Any], heads: int, groups: int, eps: float, biased: bool) -> Any:
    h = rms(v["x"], v["attn_norm.weight"], eps)
    q, k, w = (h @ v[f"{n}.weight"].T + (v[f"{n}.bias"] if biased else 0) for n in "qkv")
    turn = lambda part: turned(part, v["cos"], v["sin"])  # noqa: E731
    q, k = per_head(turn, q, heads), per_head(turn, k, groups)
    out = attention(q, joined(v, "k", k), joined(v, "v", w), heads, groups)
    x = v["x"] + out @ v["o.weight"].T
    h = rms(x, v["mlp_norm.weight"], eps)
    h = silu(h @ v["gate.weight"].T) * (h @ v["up.weight"].T)
    return x + h @ v["down.weight"].T, k, w


def gemma(v: dict[str, Any], heads: int, groups: int, window: int | None = None) -> Any:
    def norm(x: Any, name: str) -> Any:
        return rms(x, 1 + v[f"{name}.weight"], 1e-6)

    h = norm(v["x"], "attn_norm")
    q, k, w = (h @ v[f"{n}.weight"].T for n in "qkv")
    q = per_head(lambda part: turned(norm(part, "q_norm"), v["cos"], v["sin"]), q, heads)
    k = per_head(lambda part: turned(norm(part, "k_norm"), v["cos"], v["sin"]), k, groups)
    out = attention(q, joined(v, "k", k), joined(v, "v", w), heads, groups, window)
    x = v["x"] + norm(out @ v["o.weight"].T, "post_attn_norm")
    h = norm(x, "mlp_norm")
    h = tanh_gelu(h @ v["gate.weight"].T) * (h @ v["up.weight"].T)
    return x + norm(h @ v["down.weight"].T, "post_mlp_norm"), k, w


def reference(model: str, v: dict[str, Any], heads: int, groups: int) -> Any:
    if model == "gpt2-medium":
        return gpt2(v, heads, groups)
    if model == "gemma-3-1b":
        return gemma(v, heads, groups)
    eps = {"qwen2.5-0.5b": 1e-6, "tinyllama-1.1b": 1e-5}[model]
    return llama(v, heads, groups, eps, model == "qwen2.5-0.5b")


def check(graph: OperatorGraph, model: str, heads: int, groups: int) -> None:
    values = drawn(graph)
    expected = reference(model, values, heads, groups)
    for dtype, tolerance in (("float64", 1e-11), ("float32", 1e-5)):
        found = graph.evaluate(values, dtype)
        for name, wanted in zip(("y", "k_new", "v_new"), expected, strict=True):
            assert found[name].dtype == dtype
            np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("model", MODELS)
def test_small_blocks_equal_plain_numpy(model: str, phase: str) -> None:
    sizes = SMALL[model]
    check(block(model, phase, **sizes), model, sizes["heads"], sizes["kv_heads"])


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("model", MODELS)
def test_full_blocks_equal_plain_numpy(model: str, phase: str) -> None:
    shape = MODELS[model]
    check(block(model, phase), model, shape.heads, shape.kv_heads)


def test_decoding_several_tokens_continues_the_prefill() -> None:
    for model, sizes in SMALL.items():
        whole = block(model, tokens=7, **sizes)
        values = drawn(whole)
        expected = whole.evaluate(values, "float64")
        rest = block(model, "decode", tokens=3, context=4, **sizes)
        part = {name: a[4:] if name in ("x", "cos", "sin") else a for name, a in values.items()}
        part |= {f"{n}_cache": expected[f"{n}_new"][:4] for n in "kv"}
        found = rest.evaluate(part, "float64")
        np.testing.assert_allclose(found["y"], expected["y"][4:], rtol=1e-12, atol=1e-12)


def test_local_layers_of_gemma_see_their_window() -> None:
    sizes = SMALL["gemma-3-1b"]
    shape = replace(MODELS["gemma-3-1b"], window=5)
    for phase, tokens, context in (("prefill", 9, None), ("decode", 1, 8), ("decode", 2, 6)):
        graph = block(shape, phase, tokens, context, **sizes)
        values = drawn(graph)
        expected = gemma(values, sizes["heads"], sizes["kv_heads"], window=5)[0]
        found = graph.evaluate(values, "float64")["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
        assert not np.allclose(found, gemma(values, sizes["heads"], sizes["kv_heads"])[0])


@pytest.mark.parametrize("model", MODELS)
def test_requests_of_a_batch_do_not_see_each_other(model: str) -> None:
    sizes = SMALL[model]
    many, one = block(model, "decode", batch=3, **sizes), block(model, "decode", **sizes)
    values = drawn(many)
    found = many.evaluate(values, "float64")["y"]
    assert found.shape == (3, 1, sizes["hidden"])
    batched = [t.name for t in many.tensors.values() if t.name in values and t.shape[0] == 3]
    assert {"x", "k_cache", "v_cache"} <= set(batched)
    for i in range(3):
        own = {name: a[i] if name in batched else a for name, a in values.items()}
        alone = one.evaluate(own, "float64")["y"]
        np.testing.assert_allclose(found[i], alone, rtol=1e-12, atol=1e-12)


# Sizes and costs

PARAMETERS = {
    "gpt2-medium": 12.58, "qwen2.5-0.5b": 14.91, "tinyllama-1.1b": 44.04, "gemma-3-1b": 26.84,
}  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("model", "millions"), PARAMETERS.items())
def test_weights_of_a_block_are_as_published(model: str, millions: float, phase: str) -> None:
    assert round(block(model, phase).matrix_parameters / 1e6, 2) == millions


def counted(model: str, tokens: int, total: int) -> int:
    """FLOPs of a block by hand: S tokens, T keys, by the weights of docs/functions.md."""
    s, t = tokens, total
    if model == "gpt2-medium":
        h, f, heads, d, g = 1024, 4096, 16, 64, 16
        linears = 2 * s * (4 * h * h + 2 * h * f)
        biases = s * (4 * h + f + h)
        # sum, centered, square and sum, three of the result; per row: mean, mean, eps, rsqrt.
        norms = 2 * s * (h * (1 + 1 + 2 + 3) + 1 + 1 + 1 + 4)
        network = s * f * 12
        rotary = 0
    elif model == "gemma-3-1b":
        h, f, heads, d, g = 1152, 6912, 4, 256, 1
        linears = 2 * s * (2 * h * heads * d + 2 * h * g * d + 3 * h * f)
        biases = 0
        # square and sum, x * root * (1 + w); per row: mean, eps, rsqrt.
        norms = 4 * s * (h * (2 + 3) + 6) + s * (heads + g) * (d * 5 + 6)
        network = s * f * (12 + 1)
        rotary = 3 * s * (heads + g) * d
    else:
        h, f, heads, g = {
            "qwen2.5-0.5b": (896, 4864, 14, 2), "tinyllama-1.1b": (2048, 5632, 32, 4),
        }[model]  # fmt: skip
        d = 64
        linears = 2 * s * (2 * h * h + 2 * h * g * d + 3 * h * f)
        biases = s * (h + 2 * g * d) if model == "qwen2.5-0.5b" else 0
        norms = 2 * s * (h * (2 + 2) + 6)
        network = s * f * (8 + 1)
        rotary = 3 * s * (heads + g) * d
    # Two products, the scale, and max, sub, exp, sum, div of the softmax.
    scores = heads * s * t * (2 * d + 2 * d + 1 + 1 + 1 + 4 + 1 + 1)
    residuals = 2 * s * h
    return linears + biases + norms + network + rotary + scores + residuals


@pytest.mark.parametrize("model", MODELS)
def test_flops_are_those_of_a_count_by_hand(model: str) -> None:
    assert block(model).flops == counted(model, 16, 16)
    assert block(model, "decode").flops == counted(model, 1, 65)
    assert fold_unit_dims(block(model, "decode")).flops == counted(model, 1, 65)


def test_shapes_are_those_of_table_7() -> None:
    found = {m.name: (m.layers, m.hidden, m.inner, m.heads, m.kv_heads) for m in MODELS.values()}
    assert found == {
        "gpt2-medium": (24, 1024, 4096, 16, 16),
        "qwen2.5-0.5b": (24, 896, 4864, 14, 2),
        "tinyllama-1.1b": (22, 2048, 5632, 32, 4),
        "gemma-3-1b": (26, 1152, 6912, 4, 1),
    }


# Whole models


def test_a_model_is_its_block_with_the_weights_of_each_layer() -> None:
    sizes = SMALL["tinyllama-1.1b"]
    model = whole_model("tinyllama-1.1b", "decode", layers=3, **sizes)
    values: dict[str, Any] = {}
    for layer in range(3):
        own = drawn(model.block, seed=layer)
        values |= {n: own[n] for n in ("x", "cos", "sin") if not layer}
        values |= {
            model.name(layer, t.name): own[t.name] for t in model.block.with_role("weight", "state")
        }
    found = model.evaluate(values, "float64")
    x = values["x"]
    for layer in range(3):
        v = {n.removeprefix(f"layers.{layer}."): a for n, a in values.items()}
        x, k, _ = llama({**v, "x": x}, sizes["heads"], sizes["kv_heads"], 1e-5, False)
        np.testing.assert_allclose(found[model.name(layer, "k_new")], k, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found["y"], x, rtol=1e-10, atol=1e-10)
    assert model.parameters == 3 * model.block.parameters
    assert model.flops == 3 * model.block.flops


def test_weights_of_layers_lie_one_behind_the_other() -> None:
    model = whole_model("gpt2-medium")
    assert model.layers == 24
    # 12.58 M weights of 4 bits, and 13 312 biases and weights of norms of 8 bits.
    assert model.block_bytes == 12_582_912 // 2 + 13_312
    ends = []
    for layer in (0, 1, 23):
        base = model.weight_base(layer)
        places = sorted((base[t.name], t.bytes) for t in model.block.with_role("weight"))
        assert places[0][0] == layer * model.block_bytes
        assert all(a + size == b for (a, size), (b, _) in pairwise(places))
        ends.append(sum(places[-1]))
    assert ends == [model.block_bytes * n for n in (1, 2, 24)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpt2-mediun",), "unknown model 'gpt2-mediun'; did you mean 'gpt2-medium'?"),
        (("gpt2-medium", "training"), "phase: expected one of prefill, decode, found 'training'"),
        (
            ("gpt2-medium", "prefill", 0),
            "tokens: expected a whole number from 1, found 0",
        ),
        (
            ("gpt2-medium", "decode", 1, 0),
            "context: expected a whole number from 1, found 0",
        ),
        (("gpt2-medium", "prefill", 4, 8), "prefill starts at an empty cache, found context 8"),
    ],
)
def test_sizes_that_no_block_has_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(StepSimError) as caught:
        block(*arguments)
    assert message in str(caught.value)


def test_heads_that_do_not_share_are_refused() -> None:
    with pytest.raises(CompileError, match="6 heads cannot share 4 key heads"):
        block("tinyllama-1.1b", heads=6)
    with pytest.raises(CompileError, match="there is no layer 24; use 0 to 23"):
        whole_model("gpt2-medium").weight_base(24)
    model = whole_model("gpt2-medium", layers=1, **SMALL["gpt2-medium"])
    values = {model.name(0, n) if n != "x" else n: v for n, v in drawn(model.block).items()}
    with pytest.raises(CompileError, match="'more' is not a value of the model"):
        model.evaluate({**values, "more": 1})
    values.pop("layers.0.q.bias")
    with pytest.raises(CompileError, match=r"'layers\.0\.q\.bias' is missing"):
        model.evaluate(values)
