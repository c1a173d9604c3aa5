"""Modules of PyTorch become graphs that compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from stepsim.design.operators.importers import ImportedGraph, from_torch, graph_of, is_model
from stepsim.errors import CompileError
from tests.design.operators.example_models import (
    KEPT,
    NAMES,
    SMALL,
    Kept,
    example,
    exported,
    require_torch,
)

pytestmark = pytest.mark.torch


@pytest.fixture
def torch() -> Any:
    return require_torch()


def module_of(torch: Any, forward: Callable[..., Any], **parts: Any) -> Any:
    """A module with the given parts, whose forward is a function of it and of tensors."""
    kind = type("Made", (torch.nn.Module,), {"forward": lambda self, *args: forward(self, *args)})
    made = kind()
    for name, part in parts.items():
        setattr(made, name, part)
    return made.eval()


def agrees(graph: ImportedGraph, module: Any, inputs: Any, torch: Any, most: float = 1e-4) -> None:
    """Outputs of the graph are those of the module."""
    values = {n: x.numpy() for n, x in zip(graph.order, inputs, strict=True) if n is not None}
    with torch.no_grad():
        expected = module(*inputs)
    results = expected if isinstance(expected, tuple) else (expected,)
    made = graph.evaluate(values)
    names = ["y" if i == 0 else f"y{i}" for i in range(len(results))]
    for name, result in zip(names, results, strict=True):
        assert made[name].size == result.numel()
        error = np.abs(made[name].reshape(result.shape) - result.numpy()).max()
        assert error <= most, (name, error)


# The blocks


@pytest.mark.parametrize("file", NAMES)
@pytest.mark.parametrize(("phase", "tokens"), [("prefill", 16), ("decode", 1), ("decode", 3)])
def test_a_block_computes_what_pytorch_does(file: str, phase: str, tokens: int, torch: Any) -> None:
    torch.manual_seed(7)
    models = example(file)
    module, inputs = models.model(phase, tokens=tokens, **SMALL[file])
    for weight in module.parameters():
        weight.data.normal_(0, weight.shape[-1] ** -0.5)
    graph = from_torch(module, inputs)
    tables = () if file == "gpt2_medium" else (1, 2)
    real = [x if i in tables else torch.randn_like(x) for i, x in enumerate(inputs)]
    agrees(graph, module, real, torch)


@pytest.mark.parametrize("file", NAMES)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_block_of_full_size_computes_what_pytorch_does(file: str, phase: str, torch: Any) -> None:
    torch.manual_seed(7)
    module, inputs = example(file).model(phase)
    for weight in module.parameters():
        weight.data.normal_(0, weight.shape[-1] ** -0.5)
    tables = () if file == "gpt2_medium" else (1, 2)
    real = [x if i in tables else torch.randn_like(x) for i, x in enumerate(inputs)]
    agrees(from_torch(module, inputs), module, real, torch)


def test_a_narrow_window_becomes_part_of_the_mask(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = example("gemma")
    monkeypatch.setattr(models, "WINDOW", 5)
    module, inputs = models.model("decode", tokens=3, **SMALL["gemma"])
    graph = from_torch(module, inputs)
    masks = [op.attributes for op in graph.ops if op.kind == "causal_mask"]
    assert [(mask["start"], mask["window"]) for mask in masks] == [(64, 5)]
    real = [x if i in (1, 2) else torch.randn_like(x) for i, x in enumerate(inputs)]
    agrees(graph, module, real, torch)


@pytest.mark.parametrize("one", KEPT, ids=lambda one: one.path.stem)
def test_kept_graphs_are_what_the_exporter_gives_today(one: Kept, torch: Any) -> None:
    found = exported(one).to_json()
    assert found == one.path.read_text(encoding="utf-8"), (
        f"{one.path.name} differs; if that is meant: python -m tests.design.operators.write_graphs"
    )


# Operators

Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
X, PAIR = (2, 6, 8), (2, 4, 6, 8)


def _cases(torch: Any) -> Mapping[str, Case]:
    f = torch.nn.functional
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    inf = float("-inf")

    def half(m: Any, x: Any, c: Any, s: Any) -> Any:
        return x * c + torch.cat((-x[..., 4:], x[..., :4]), -1) * s

    def pairs(m: Any, x: Any, c: Any, s: Any) -> Any:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)

    def columns(m: Any, x: Any, c: Any, s: Any) -> Any:
        a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)

    return {
        "matmul": (lambda m, x, y: x @ y, (X, (8, 3))),
        "matmul-batch": (lambda m, x, y: x @ y, (PAIR, (4, 8, 5))),
        "mm": (lambda m, x, y: torch.mm(x, y), ((3, 4), (4, 5))),
        "bmm": (lambda m, x, y: torch.bmm(x, y), (X, (2, 8, 5))),
        "addmm": (lambda m, b, x, y: torch.addmm(b, x, y, beta=2, alpha=3),
                  ((5,), (3, 4), (4, 5))),
        "einsum": (lambda m, x, y: torch.einsum("bhsd,bhtd->bhst", x, y), (PAIR, (2, 4, 5, 8))),
        "add-alpha": (lambda m, x, y: torch.add(x, y, alpha=0.5), (X, (8,))),
        "sub": (lambda m, x, y: torch.sub(1.5 - x, y, alpha=3), (X, (6, 1))),
        "mul-div": (lambda m, x, y: 3 * x * y / 7 / (y * y + 1), (X, X)),
        "add-self": (lambda m, x: x + x, (X,)),
        "powers": (lambda m, x: x**3 + x**2 + (x * x + 1) ** -0.5 + (x * x) ** 0.5, (X,)),
        "unary": (lambda m, x: x.exp() + x.tanh() + x.sigmoid() + x.abs() - x.neg() + x.relu(),
                  (X,)),
        "clamp": (lambda m, x: x.clamp(-0.5, 0.25).clamp(min=-0.1), (X,)),
        "maximum": (lambda m, x, y: torch.maximum(x, y) - torch.minimum(x, y), (X, X)),
        "softmax": (lambda m, x: x.softmax(1), (X,)),
        "softmax-function": (lambda m, x: f.softmax(x, dim=-1, dtype=torch.float32), (X,)),
        "layer-norm": (lambda m, x: f.layer_norm(x, (8,)), (X,)),
        "layer-norm-by-hand": (lambda m, x: (x - x.mean(-1, keepdim=True))
                               / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(), (X,)),
        "rms-norm": (lambda m, x, w: f.rms_norm(x, (8,), w), (X, (8,))),
        "rms-norm-by-hand": (lambda m, x, w: x / (x.pow(2).mean(-1, True) + 1e-6).sqrt() * w,
                             (X, (8,))),
        "gelu": (lambda m, x: f.gelu(x), (X,)),
        "gelu-tanh": (lambda m, x: f.gelu(x, approximate="tanh"), (X,)),
        "gelu-by-hand": (lambda m, x: 0.5 * x * (1 + torch.tanh(
            (2 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3)))), (X,)),
        "gelu-by-erf": (lambda m, x: x * 0.5 * (1.0 + torch.erf(x / 2**0.5)), (X,)),
        "silu": (lambda m, x: f.silu(x) + x * torch.sigmoid(x), (X,)),
        "reshape": (lambda m, x: (x.view(2, 6, 2, 4).transpose(1, 2).reshape(4, -1) * 2).t(),
                    (X,)),
        "permute": (lambda m, x: (x.permute(2, 0, 1) + 1).unflatten(0, (2, -1)).flatten(1, 2),
                    (X,)),
        "squeeze": (lambda m, x: x.unsqueeze(1).squeeze(1).unsqueeze(-1).squeeze() * 2, (X,)),
        "chunk": (lambda m, x: tuple(a * 2 for a in x.chunk(3, -1)), (X,)),
        "split": (lambda m, x: tuple(a + 1 for a in x.split([2, 6], -1)), (X,)),
        "unbind": (lambda m, x: x.unbind(0)[1] - x.unbind(0)[0], (X,)),
        "concat": (lambda m, x, y: torch.cat((x * 2, y, x), 1), (X, (2, 3, 8))),
        "concat-chunk": (lambda m, x, y: torch.cat((x, y), -1).chunk(2, -1)[1] * 2, (X, X)),
        "stack": (lambda m, x, y: torch.stack((x * 2, y), 1), (X, X)),
        "select": (lambda m, x: x[:, -1] + x[:, 2:3, ...].squeeze(1), (X,)),
        "expand": (lambda m, x: x[:, None].expand(2, 3, 6, 8).reshape(6, 6, 8) * 2, (X,)),
        "repeat-interleave": (lambda m, x: x.repeat_interleave(3, 1) * 2, (X,)),
        "reductions": (lambda m, x: x.sum(-1) + x.mean((1, 2), keepdim=True)[..., 0]
                       + x.amax(-1), (X,)),
        "rotary-half": (half, (PAIR, (6, 8), (6, 8))),
        "rotary-pairs": (pairs, (PAIR, (6, 4), (6, 4))),
        "rotary-columns": (columns, (PAIR, (6, 4), (6, 4))),
        "mask-fill": (lambda m, x: x.masked_fill(~seen, inf).softmax(-1), ((4, 6, 6),)),
        "mask-where": (lambda m, x: torch.where(
            seen, x, torch.finfo(torch.float32).min).softmax(-1), ((4, 6, 6),)),
        "mask-added": (lambda m, x: (x + torch.full((6, 6), inf).triu(1)).softmax(-1),
                       ((4, 6, 6),)),
        "mask-other": (lambda m, x: x.masked_fill(seen, 2.5) * 2, ((4, 6, 6),)),
        "mask-blocks": (lambda m, x: x.masked_fill(
            torch.ones(6, 6).triu(1).bool().flip(0), inf).softmax(-1), ((4, 6, 6),)),
        "mask-lowest": (lambda m, x: (torch.where(seen, x, -1e9) + torch.ones(6, 6)).softmax(-1),
                        ((4, 6, 6),)),
        "mask-of-numbers": (lambda m, x: (x.masked_fill(~seen, -1e5) * 1e-5).softmax(-1),
                            ((4, 6, 6),)),
        "mask-of-a-whole-row": (lambda m, x: x.masked_fill(torch.arange(6)[:, None] == 2, -1e9)
                                .softmax(-1), ((4, 6, 6),)),
        "sdpa-whole-row": (lambda m, q, k, v: f.scaled_dot_product_attention(
            q, k, v, attn_mask=(torch.arange(6)[:, None] == 2) * torch.full((6, 6), -1e9)),
            (PAIR, PAIR, PAIR)),
        "sdpa": (lambda m, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
                 (PAIR, PAIR, PAIR)),
        "sdpa-mask": (lambda m, q, k, v, a: f.scaled_dot_product_attention(
            q, k, v, attn_mask=a, scale=0.3), (PAIR, PAIR, PAIR, (6, 6))),
        "sdpa-bools": (lambda m, q, k, v, a: f.scaled_dot_product_attention(
            q, k, v, attn_mask=a < 1.0), (PAIR, PAIR, PAIR, (6, 6))),
        "sdpa-no-key": (lambda m, q, k, v, a: f.scaled_dot_product_attention(
            q, k, v, attn_mask=(a < 0.5) & (torch.arange(6) != 2)[:, None]),
            (PAIR, PAIR, PAIR, (6, 6))),
        "sdpa-blocks": (lambda m, q, k, v: f.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.eye(6, dtype=torch.bool).flip(0)), (PAIR, PAIR, PAIR)),
        "sdpa-gqa": (lambda m, q, k, v: f.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True), (PAIR, (2, 2, 6, 8), (2, 2, 6, 8))),
        "table": (lambda m, x: x * torch.arange(6).float().cos()[:, None], (X,)),
        "half": (lambda m, x: (x.to(torch.float32) * 2).contiguous().clone(), (X,)),
        "like": (lambda m, x: x * torch.full_like(x, 3) + torch.zeros_like(x) - torch.ones_like(x),
                 (X,)),
        "bools": (lambda m, x: x.masked_fill(
            ~((x > 0) & (x < 1)) | torch.logical_and(x > -1, torch.logical_not(x > -0.5)), 3.0),
            (X,)),
        "waves": (lambda m, x: torch.sin(x) + torch.cos(2 * x), (X,)),
        "layer-norm-of-two": (lambda m, x: f.layer_norm(x, x.shape[-2:], x[0] * 0 + 2.0), (X,)),
        "rms-norm-of-two": (lambda m, x: f.rms_norm(x, x.shape[-2:], x[0] * 0 + 2.0, 1e-3), (X,)),
        "dropout": (lambda m, x: f.dropout(x, 0.5, training=False) * 2, (X,)),
    }  # fmt: skip


NAMES_OF_CASES = (
    "matmul", "matmul-batch", "mm", "bmm", "addmm", "einsum", "add-alpha", "sub", "mul-div",
    "add-self", "powers", "unary", "clamp", "maximum", "softmax", "softmax-function", "layer-norm",
    "layer-norm-by-hand", "rms-norm", "rms-norm-by-hand", "gelu", "gelu-tanh", "gelu-by-hand",
    "gelu-by-erf", "silu", "reshape", "permute", "squeeze", "chunk", "split", "unbind", "concat",
    "concat-chunk", "stack", "select", "expand", "repeat-interleave", "reductions", "rotary-half",
    "rotary-pairs", "rotary-columns", "mask-fill", "mask-where", "mask-added", "mask-other",
    "mask-blocks", "mask-lowest", "mask-of-numbers", "mask-of-a-whole-row",
    "sdpa-whole-row", "sdpa", "sdpa-mask", "sdpa-bools", "sdpa-no-key", "sdpa-blocks", "sdpa-gqa",
    "table", "half", "like", "bools", "waves", "layer-norm-of-two",
    "rms-norm-of-two", "dropout",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES_OF_CASES)
def test_an_operator_computes_what_pytorch_does(name: str, torch: Any) -> None:
    torch.manual_seed(1)
    forward, shapes = _cases(torch)[name]
    module = module_of(torch, forward)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    graph = from_torch(module, inputs)
    agrees(graph, module, inputs, torch, 2e-5)
    kinds = {op.kind for op in graph.ops}
    assert ("rotary" in kinds) == name.startswith("rotary")
    assert ("causal_mask" in kinds) == (
        name in ("mask-fill", "mask-where", "mask-added", "mask-lowest", "sdpa", "sdpa-gqa")
    )
    if name.startswith("gelu"):
        assert len(graph.ops) == 1


def test_every_case_is_run(torch: Any) -> None:
    assert tuple(_cases(torch)) == NAMES_OF_CASES


def test_whole_numbers_become_bools(torch: Any) -> None:
    module = module_of(torch, lambda m, x, seen: x * seen.bool())
    inputs = torch.randn(4), torch.tensor([0, 1, 2, -3])
    agrees(from_torch(module, inputs), module, inputs, torch)


def test_a_run_of_the_module_leaves_the_graph_its_state(torch: Any) -> None:
    def forward(m: Any, x: Any) -> Any:
        m.total += x
        return m.total * 2

    module = module_of(torch, forward)
    module.register_buffer("total", torch.ones(3))
    x = torch.tensor([1.0, 2.0, 3.0])
    graph = from_torch(module, (x,))
    agrees(graph, module, (x,), torch)  # runs the module first


def test_rows_of_a_table(torch: Any) -> None:
    module = module_of(torch, lambda m, ids: m.table(ids) * 2, table=torch.nn.Embedding(11, 4))
    ids = torch.tensor([[3, 0, 10], [1, 1, 2]])
    graph = from_torch(module, (ids,))
    agrees(graph, module, (ids,), torch)
    assert [tensor.dtype for tensor in graph.with_role("input")] == ["i64"]
    assert from_torch(module, (ids.int(),)).with_role("input")[0].dtype == "i32"
    with pytest.raises(CompileError, match=r"from_torch\(Made\): input 'args_1' is of uint8, "):
        from_torch(
            module_of(torch, lambda m, x, ids: x * ids), (torch.ones(3), ids[0].to(torch.uint8))
        )


# Models as libraries write them


def test_layers_of_pytorch(torch: Any) -> None:
    """Embeddings, two layers under a causal mask, and a head that shares its weight."""
    nn = torch.nn

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(50, 16), nn.Embedding(20, 16)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
                for _ in range(2)
            )
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            for layer in self.layers:
                x = layer(x, src_mask=mask, is_causal=True)
            return self.head(x)

    torch.manual_seed(4)
    module = Model().eval()
    ids = torch.randint(0, 50, (1, 6))
    graph = from_torch(module, (ids,))
    agrees(graph, module, (ids,), torch)
    masks = [op.attributes["start"] for op in graph.ops if op.kind == "causal_mask"]
    assert masks == [0, 0]
    assert [tensor.shape for tensor in graph.with_role("weight")].count((50, 16)) == 1


def test_attention_as_it_is_often_written(torch: Any) -> None:
    """Repeated keys, an added mask of the lowest numbers, angles and caches in the module."""
    nn, f = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(16, 16, bias=False), nn.Linear(16, 8, bias=False)
            self.v, self.o = nn.Linear(16, 8, bias=False), nn.Linear(16, 16, bias=False)
            turns = 1 / (10000 ** (torch.arange(0, 4, 2) / 4))
            self.register_buffer("turns", turns, persistent=False)

        def forward(self, x: Any, past_k: Any, past_v: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = (
                part(x).view(b, t, -1, 4).transpose(1, 2) for part in (self.q, self.k, self.v)
            )
            positions = torch.arange(8, 8 + t)[None, None, :].float()
            angles = (self.turns[None, :, None].float() @ positions).transpose(1, 2)
            angles = torch.cat((angles, angles), -1)
            cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)

            def turned(y: Any) -> Any:
                half = y.shape[-1] // 2
                return y * cos + torch.cat((-y[..., half:], y[..., :half]), -1) * sin

            def repeated(y: Any) -> Any:
                return y[:, :, None].expand(b, 2, 2, y.shape[2], 4).reshape(b, 4, y.shape[2], 4)

            k, v = torch.cat([past_k, turned(k)], -2), torch.cat([past_v, v], -2)
            scores = torch.matmul(turned(q), repeated(k).transpose(2, 3)) * 0.5
            lowest = torch.finfo(x.dtype).min
            mask = torch.full((t, 8 + t), lowest).triu(9)[None, None].expand(b, 1, -1, -1)
            weights = f.softmax(scores + mask, dim=-1, dtype=torch.float32).to(q.dtype)
            y = torch.matmul(f.dropout(weights, 0.0, self.training), repeated(v))
            return self.o(y.transpose(1, 2).contiguous().reshape(b, t, -1)), k, v

    torch.manual_seed(4)
    module = Attention().eval()
    inputs = torch.randn(1, 3, 16), torch.randn(1, 2, 8, 4), torch.randn(1, 2, 8, 4)
    graph = from_torch(module, inputs)
    agrees(graph, module, inputs, torch)
    kinds = sorted(op.kind for op in graph.ops if op.kind != "generic")
    assert kinds == ["causal_mask", "concat", "concat", "rotary", "rotary"]
    assert [tensor.name for tensor in graph.with_role("state")] == ["past_k", "past_v"]
    assert graph.parameters == sum(weight.numel() for weight in module.parameters())


# Caches


def _written(kind: str) -> Callable[..., Any]:
    def forward(m: Any, x: Any) -> Any:
        import torch

        if kind == "slice":
            m.cache[:, 3:5] = x
        elif kind == "index_copy":
            m.cache.index_copy_(1, torch.arange(3, 5), x)
        elif kind == "index_put":
            m.cache[:, torch.arange(3, 5)] = x
        else:
            m.cache = torch.cat((m.cache[:, :3], x, m.cache[:, 5:]), 1)
        return m.cache[:, :5] * 2

    return forward


def test_a_cache_that_is_read_as_a_whole_is_masked(torch: Any) -> None:
    nn, f = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(8, 8, bias=False)
            self.register_buffer("cache", torch.randn(1, 2, 16, 4))

        def forward(self, x: Any) -> Any:
            new = self.q(x).view(1, 1, 2, 4).transpose(1, 2)
            self.cache[:, :, 9:10] = new
            seen = (torch.arange(16) <= 9)[None, None, None]
            return f.scaled_dot_product_attention(new, self.cache, self.cache, attn_mask=seen)

    torch.manual_seed(4)
    module, x = Attention().eval(), torch.randn(1, 1, 8)
    graph = from_torch(module, (x,))
    agrees(graph, module, (x,), torch)
    (mask,) = [op.attributes for op in graph.ops if op.kind == "causal_mask"]
    assert (mask["start"], mask["window"]) == (9, None)


@pytest.mark.parametrize("kind", ["slice", "index_copy", "index_put", "cat"])
def test_a_cache_that_the_module_keeps_is_a_state(kind: str, torch: Any) -> None:
    module = torch.nn.Module.__new__(type("Made", (torch.nn.Module,), {"forward": _written(kind)}))
    torch.nn.Module.__init__(module)
    module.register_buffer("cache", torch.randn(1, 8, 4))
    before = module.cache.clone()
    x = torch.randn(1, 2, 4)
    graph = from_torch(module.eval(), (x,))
    assert [tensor.name for tensor in graph.with_role("state")] == ["cache"]
    made = graph.evaluate({str(graph.order[0]): x.numpy()})
    np.testing.assert_array_equal(made["cache_new"], x.numpy())
    expected = torch.cat((before[:, :3], x), 1) * 2
    np.testing.assert_allclose(made["y"], expected.numpy(), rtol=1e-6)
    # Rows that are not read stay where they are.
    sizes = [graph.tensors[op.output.tensor].shape for op in graph.ops if op.kind == "concat"]
    assert sizes == [(1, 5, 4)]


def test_a_cache_that_is_written_at_positions_of_an_input_is_refused(torch: Any) -> None:
    def forward(m: Any, cache: Any, x: Any, at: Any) -> Any:
        return cache.index_copy(1, at, x) * 2

    inputs = (torch.zeros(1, 8, 4), torch.zeros(1, 2, 4), torch.tensor([3, 4]))
    with pytest.raises(CompileError, match=r"aten.index_copy.default in .*positions that are an"):
        from_torch(module_of(torch, forward), inputs)


# What is refused


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("softplus", r"softplus.*: beta is 1 and threshold 2; supported are 1 and from 20"),
        ("full_like", r"full_like.*: it converts torch.float32 to torch.int64"),
        ("sum", r"sum.*: it converts torch.float32 to torch.int64"),
        ("bools", r"add.*: it adds bools"),
        ("bits", r"bitwise_and.*: it takes whole numbers bit by bit"),
        ("no_key", r"sdpa: its mask hides all keys from a query.*let every query see a key"),
    ],
)
def test_what_would_have_other_values_is_refused(name: str, why: str, torch: Any) -> None:
    f = torch.nn.functional
    forwards = {
        "softplus": lambda m, x: f.softplus(x, 1, 2.0),
        "full_like": lambda m, x: x * torch.full_like(x, 2.7, dtype=torch.int64),
        "sum": lambda m, x: x * x.sum(dtype=torch.int64),
        "bools": lambda m, x: x * ((x > 0) + (x > -1)),
        "bits": lambda m, x: x * torch.bitwise_and((x > 0).long(), (x > 1).long()),
        "no_key": lambda m, x: f.scaled_dot_product_attention(
            x, x, x, attn_mask=torch.arange(4)[:, None].expand(4, 4) > 0),
    }  # fmt: skip
    with pytest.raises(CompileError, match=why):
        from_torch(module_of(torch, forwards[name]), (torch.randn(1, 2, 4, 4),))


def _strange(torch: Any) -> Any:
    class Inner(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.logcumsumexp(x, -1) + torch.cumprod(x, -1)

    class Outer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([Inner(), Inner()])

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return torch.sort(x).values

    return Outer().eval()


def test_unknown_operators_are_all_listed_with_their_places(torch: Any) -> None:
    with pytest.raises(CompileError) as caught:
        from_torch(_strange(torch), (torch.zeros(2, 4),))
    text = str(caught.value)
    for target in ("aten.logcumsumexp.default", "aten.sort.default", "aten.cumprod.default"):
        assert target in text
    assert text.count("layers.0 (test_torch_import.py:") >= 2
    assert text.count("layers.1 (test_torch_import.py:") >= 2
    assert "the module itself (test_torch_import.py:" in text
    assert "keep_going=True (--keep-going)" in text
    assert "costs={'aten." in text


def test_unknown_operators_can_be_opaque(torch: Any) -> None:
    module = module_of(torch, lambda m, x: torch.logcumsumexp(x * 2, -1) + torch.sort(x).values)
    inputs = (torch.zeros(2, 4),)
    graph = from_torch(module, inputs, keep_going=True, costs={"aten.logcumsumexp.default": 2.5})
    opaque = {op.attributes["target"]: op.flops for op in graph.ops if op.kind == "opaque"}
    assert opaque == {"aten.logcumsumexp.default": 20, "aten.sort.default": 8}
    assert graph.attributes["assumed_costs"] == ["aten.sort.default"]
    with pytest.raises(CompileError, match=r"'aten\.(sort|logcumsumexp)\.default' is opaque"):
        graph.evaluate({str(graph.order[0]): np.zeros((2, 4))})


@pytest.mark.parametrize(
    ("costs", "message"),
    [({"aten.logcumsumexq.default": 1}, "did you mean 'aten.logcumsumexp.default'"),
     ({"aten.logcumsumexp.default": -1}, "the cost of 'aten.logcumsumexp.default' is -1")],
)  # fmt: skip
def test_costs_that_are_of_no_use_are_refused(
    costs: dict[str, float], message: str, torch: Any
) -> None:
    module = module_of(torch, lambda m, x: torch.logcumsumexp(x, -1))
    with pytest.raises(CompileError, match=message):
        from_torch(module, (torch.zeros(2, 4),), keep_going=True, costs=costs)


def test_dynamic_shapes_are_refused(torch: Any) -> None:
    module = module_of(torch, lambda m, x: x * 2)
    program = torch.export.export(
        module, (torch.zeros(4, 8),), dynamic_shapes=(({0: torch.export.Dim("rows", min=2)},),)
    )
    with pytest.raises(CompileError, match=r"shapes are dynamic: argument .* without dynamic_sh"):
        from_torch(program)


def test_shapes_that_values_decide_are_refused(torch: Any) -> None:
    module = module_of(torch, lambda m, x: x[x > 0])
    with pytest.raises(CompileError, match=r"result 'index' has shape u\d+ .* by their values"):
        from_torch(module, (torch.zeros(2),))


def test_arguments_may_be_nested_and_results_named(torch: Any) -> None:
    def forward(m: Any, x: Any, caches: Any) -> Any:
        rows = torch.cat((caches[0], x * 3), 1)
        return {"sum": (rows + caches[1]).sum(1), "none": None, "rows": rows}

    inputs = torch.randn(1, 2, 4), (torch.randn(1, 3, 4), torch.randn(1, 5, 4))
    module = module_of(torch, forward)
    graph = from_torch(module, inputs, outputs=("sum", "rows"))
    values = dict(zip(graph.order, (inputs[0], *inputs[1]), strict=True))
    made = graph.evaluate({str(name): x.numpy() for name, x in values.items()})
    expected = module(*inputs)
    for name in ("sum", "rows"):
        np.testing.assert_allclose(made[name], expected[name].numpy(), rtol=1e-5, atol=1e-6)


def test_what_cannot_be_exported_is_said(torch: Any) -> None:
    module = module_of(torch, lambda m, x: x if x.sum() > 0 else -x)
    with pytest.raises(CompileError, match=r"torch\.export cannot export the module"):
        from_torch(module, (torch.zeros(2),))


def test_training_is_refused(torch: Any) -> None:
    module = torch.nn.Sequential(torch.nn.Dropout(0.5)).train()
    with pytest.raises(CompileError, match=r"call eval\(\) of the module"):
        from_torch(module, (torch.zeros(2),))


@pytest.mark.parametrize("outputs", [("a",), ("a", "a"), ("a", "b", "c")])
def test_names_of_outputs_are_checked(outputs: tuple[str, ...], torch: Any) -> None:
    module = module_of(torch, lambda m, x: (x * 2, x * 3))
    with pytest.raises(CompileError, match="give 2 different names"):
        from_torch(module, (torch.zeros(2),), outputs=outputs)


def test_scalar_types_are_those_of_the_module_or_given(torch: Any) -> None:
    module = torch.nn.Linear(4, 4).to(torch.bfloat16).eval()
    x = torch.zeros(2, 4, dtype=torch.bfloat16)
    own = from_torch(module, (x,))
    assert {tensor.dtype for tensor in own.tensors.values()} == {"bf16"}
    given = from_torch(module, (x,), dtype="i8", weight_dtype="i4")
    assert given.tensors["weight"].dtype == "i4"
    assert given.tensors["y"].dtype == "i8"


def test_numbers_of_the_model_are_beside_the_graph(torch: Any) -> None:
    module = torch.nn.Linear(4, 3).eval()
    graph = from_torch(module, (torch.zeros(2, 4),))
    assert set(graph.arrays) == {"weight", "bias"}
    np.testing.assert_array_equal(graph.arrays["weight"], module.weight.detach().numpy())
    assert "arrays" not in graph.to_json()
    assert graph.plain() == type(graph.plain()).from_json(graph.to_json())


def test_what_a_file_makes_is_imported(torch: Any) -> None:
    models = example("gpt2_medium")
    made = models.model("decode", **SMALL["gpt2_medium"])
    assert is_model(made)
    found = graph_of(made, outputs=models.OUTPUTS, name="block")
    assert found.to_json() == from_torch(*made, outputs=models.OUTPUTS, name="block").to_json()
    program = torch.export.export(*made)
    assert is_model(program)
    again = graph_of(program, outputs=models.OUTPUTS, name="block")
    assert again.to_json() == found.to_json()
    assert is_model(made[0])
    with pytest.raises(CompileError, match=r"class Block has no arguments"):
        graph_of(made[0])
