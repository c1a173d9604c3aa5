"""A decoder block of GPT-2 medium as a PyTorch module, with its KV cache.

    stepsim compile examples/models/gpt2_medium.py:model --phase decode --context 64 --out plan

The sizes are arguments, so that small blocks of the same shape can be tried first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

LAYERS = 24
OUTPUTS = ("y", "k_new", "v_new")


class Attention(nn.Module):
    """Self-attention: every token sees those before it and the cache."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(hidden, hidden)
        self.k = nn.Linear(hidden, hidden)
        self.v = nn.Linear(hidden, hidden)
        self.o = nn.Linear(hidden, hidden)

    def split(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] to [batch, heads, tokens, width]."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(
        self, x: Tensor, k_cache: Tensor | None, v_cache: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k_new, v_new = self.q(x), self.k(x), self.v(x)
        k, v = k_new, v_new
        mask = None
        tokens = x.shape[1]
        if k_cache is not None and v_cache is not None:
            k, v = torch.cat((k_cache, k_new), dim=1), torch.cat((v_cache, v_new), dim=1)
            if tokens > 1:
                context = k_cache.shape[1]
                mask = torch.ones(tokens, context + tokens, dtype=torch.bool).tril(context)
        y = functional.scaled_dot_product_attention(
            self.split(q), self.split(k), self.split(v), mask, is_causal=k_cache is None
        )
        return self.o(y.transpose(1, 2).flatten(2)), k_new, v_new


class Network(nn.Module):
    """The feed-forward network."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, inner)
        self.down = nn.Linear(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    """One of the layers; caches are [batch, context, hidden]."""

    def __init__(self, hidden: int = 1024, inner: int = 4096, heads: int = 16) -> None:
        super().__init__()
        self.attn_norm = nn.LayerNorm(hidden, eps=1e-5)
        self.attn = Attention(hidden, heads)
        self.mlp_norm = nn.LayerNorm(hidden, eps=1e-5)
        self.mlp = Network(hidden, inner)

    def forward(
        self, x: Tensor, k_cache: Tensor | None = None, v_cache: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        attended, k_new, v_new = self.attn(self.attn_norm(x), k_cache, v_cache)
        x = x + attended
        return x + self.mlp(self.mlp_norm(x)), k_new, v_new


def model(
    phase: str = "prefill",
    tokens: int | None = None,
    context: int = 64,
    batch: int = 1,
    hidden: int = 1024,
    inner: int = 4096,
    heads: int = 16,
) -> tuple[Block, tuple[Tensor, ...]]:
    """The block and arguments of the shapes of a phase."""
    rows = tokens or (16 if phase == "prefill" else 1)
    inputs = [torch.zeros(batch, rows, hidden)]
    if phase == "decode":
        inputs += [torch.zeros(batch, context, hidden), torch.zeros(batch, context, hidden)]
    return Block(hidden, inner, heads).eval(), tuple(inputs)
