"""A decoder block of Gemma-3-1B as a PyTorch module, with its KV cache.

    stepsim compile examples/models/gemma.py:model --phase decode --context 64 --out plan

The sizes are arguments, so that small blocks of the same shape can be tried first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

LAYERS = 26
WINDOW = 512
OUTPUTS = ("y", "k_new", "v_new")


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [batch, tokens, heads, width], by angles [tokens, width]."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    front, back = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-back, front), dim=-1) * sin


class Norm(nn.Module):
    """The root mean square norm, whose weight counts from 1."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * (1.0 + self.weight)


class Attention(nn.Module):
    """Self-attention, with fewer heads of keys than of queries."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.q = nn.Linear(hidden, heads * width, bias=False)
        self.k = nn.Linear(hidden, kv_heads * width, bias=False)
        self.v = nn.Linear(hidden, kv_heads * width, bias=False)
        self.o = nn.Linear(heads * width, hidden, bias=False)
        self.q_norm = Norm(width)
        self.k_norm = Norm(width)

    def split(self, x: Tensor) -> Tensor:
        """[batch, tokens, heads * width] to [batch, tokens, heads, width]."""
        return x.view(*x.shape[:2], -1, self.width)

    def heads(self, x: Tensor) -> Tensor:
        """Keys or values as attention reads them, [batch, heads, tokens, width]."""
        return self.split(x).transpose(1, 2)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, k_cache: Tensor | None, v_cache: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q = rotated(self.q_norm(self.split(self.q(x))), cos, sin)
        k = k_new = rotated(self.k_norm(self.split(self.k(x))), cos, sin).flatten(2)
        v = v_new = self.v(x)
        context = 0
        if k_cache is not None and v_cache is not None:
            k, v = torch.cat((k_cache, k_new), dim=1), torch.cat((v_cache, v_new), dim=1)
            context = k_cache.shape[1]
        # A query sees itself and what is before it, no farther than the window.
        seen = torch.ones(x.shape[1], k.shape[1], dtype=torch.bool).tril(context)
        seen = seen.triu(context - WINDOW + 1)
        y = functional.scaled_dot_product_attention(
            q.transpose(1, 2), self.heads(k), self.heads(v), seen, enable_gqa=True
        )
        return self.o(y.transpose(1, 2).flatten(2)), k_new, v_new


class Network(nn.Module):
    """The feed-forward network with its gate."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.gate(x), approximate="tanh") * self.up(x))


class Block(nn.Module):
    """One of the local layers; caches are [batch, context, kv_heads * width]."""

    def __init__(
        self,
        hidden: int = 1152,
        inner: int = 6912,
        heads: int = 4,
        kv_heads: int = 1,
        width: int = 256,
    ) -> None:
        super().__init__()
        self.attn_norm = Norm(hidden)
        self.attn = Attention(hidden, heads, kv_heads, width)
        self.post_attn_norm = Norm(hidden)
        self.mlp_norm = Norm(hidden)
        self.mlp = Network(hidden, inner)
        self.post_mlp_norm = Norm(hidden)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        k_cache: Tensor | None = None,
        v_cache: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        attended, k_new, v_new = self.attn(self.attn_norm(x), cos, sin, k_cache, v_cache)
        x = x + self.post_attn_norm(attended)
        return x + self.post_mlp_norm(self.mlp(self.mlp_norm(x))), k_new, v_new


def angles(tokens: int, first: int, width: int, base: float = 1e4) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the positions from ``first`` on, [tokens, width]."""
    turns = base ** (-torch.arange(0, width, 2) / width)
    found = torch.arange(first, first + tokens)[:, None] * turns
    return torch.cat((found, found), dim=-1).cos(), torch.cat((found, found), dim=-1).sin()


def model(
    phase: str = "prefill",
    tokens: int | None = None,
    context: int = 64,
    batch: int = 1,
    hidden: int = 1152,
    inner: int = 6912,
    heads: int = 4,
    kv_heads: int = 1,
    head_dim: int = 256,
) -> tuple[Block, tuple[Tensor, ...]]:
    """The block and arguments of the shapes of a phase."""
    rows = tokens or (16 if phase == "prefill" else 1)
    first = context if phase == "decode" else 0
    inputs = [torch.zeros(batch, rows, hidden), *angles(rows, first, head_dim)]
    if phase == "decode":
        cache = (batch, context, kv_heads * head_dim)
        inputs += [torch.zeros(cache), torch.zeros(cache)]
    return Block(hidden, inner, heads, kv_heads, head_dim).eval(), tuple(inputs)
