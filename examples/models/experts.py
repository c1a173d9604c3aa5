"""Mixtures of experts as PyTorch modules, whose router chooses in the model itself.

    stepsim compile examples/models/experts.py:model --out plan

Which experts a token needs is computed in the run, so that shapes must not depend on it. There are
three usual ways: every expert works on all tokens, and weights that are mostly 0 add their results
up (``dense``); every expert takes the tokens that score highest, as many for each
(``expert_choice``); or every token takes the weights of its experts (``gathered``).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Experts(nn.Module):
    """A router and the gated feed-forward networks of experts."""

    def __init__(self, hidden: int, inner: int, experts: int, k: int, way: str) -> None:
        super().__init__()
        self.k, self.way = k, way
        self.router = nn.Linear(hidden, experts, bias=False)
        self.gate = nn.Parameter(torch.randn(experts, inner, hidden) * hidden**-0.5)
        self.up = nn.Parameter(torch.randn(experts, inner, hidden) * hidden**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, inner) * inner**-0.5)

    def expert(self, x: Tensor, e: int) -> Tensor:
        """The network of one expert, for rows [tokens, hidden]."""
        gated = functional.silu(x @ self.gate[e].T) * (x @ self.up[e].T)
        return gated @ self.down[e].T

    def forward(self, x: Tensor) -> Tensor:
        scores = functional.softmax(self.router(x), dim=-1)
        return {
            "dense": self.dense, "expert_choice": self.expert_choice, "gathered": self.gathered,
        }[self.way](x, scores)  # fmt: skip

    def dense(self, x: Tensor, scores: Tensor) -> Tensor:
        """Each expert on all tokens, and weights of 0 for those that did not choose it."""
        weights, chosen = torch.topk(scores, self.k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        dense = torch.zeros_like(scores).scatter(1, chosen, weights)
        parts = [dense[:, e : e + 1] * self.expert(x, e) for e in range(len(self.gate))]
        return torch.stack(parts).sum(0)

    def expert_choice(self, x: Tensor, scores: Tensor) -> Tensor:
        """Each expert on as many tokens, whose results are added to the rows they came from."""
        tokens = x.shape[0] * self.k // len(self.gate)
        weights, chosen = torch.topk(scores.T, tokens, dim=-1)
        y = torch.zeros_like(x)
        for e in range(len(self.gate)):
            rows = torch.index_select(x, 0, chosen[e])
            y = y.index_add(0, chosen[e], weights[e, :, None] * self.expert(rows, e))
        return y

    def gathered(self, x: Tensor, scores: Tensor) -> Tensor:
        """The weights of the experts of each token, as for few tokens."""
        chosen = torch.topk(scores, self.k, dim=-1)[1]
        weights = scores.gather(1, chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        gate = torch.einsum("td,tkhd->tkh", x, self.gate[chosen])
        up = torch.einsum("td,tkhd->tkh", x, self.up[chosen])
        y = torch.einsum("tkh,tkdh->tkd", functional.silu(gate) * up, self.down[chosen])
        return (y * weights[..., None]).sum(1)


def model(
    *, tokens: int = 16, hidden: int = 32, inner: int = 48, experts: int = 4, k: int = 2,
    way: str = "dense",
) -> tuple[nn.Module, tuple[Tensor, ...]]:  # fmt: skip
    """The layer in the mode of evaluation, and rows of tokens.

    ``way`` is ``"dense"``, ``"expert_choice"`` or ``"gathered"``.
    """
    return Experts(hidden, inner, experts, k, way).eval(), (torch.zeros(tokens, hidden),)
