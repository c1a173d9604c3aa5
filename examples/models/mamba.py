"""A Mamba block as a PyTorch module, over the tokens of a short prompt.

    stepsim compile examples/models/mamba.py:model --out plan

The selective scan is written as the recurrence, token by token, or by sums along the tokens. The
sums are exact as long as the decay over all tokens does not leave the range of the numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Mamba(nn.Module):
    """Projections, a causal depthwise convolution, and a selective state space between gates."""

    def __init__(self, hidden: int, states: int, width: int, rank: int, scan: str) -> None:
        super().__init__()
        inner = 2 * hidden
        self.states, self.rank, self.scan = states, rank, scan
        self.in_proj = nn.Linear(hidden, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, width, groups=inner, padding=width - 1)
        self.x_proj = nn.Linear(inner, rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        steps = torch.arange(1, states + 1, dtype=torch.float32)
        self.A_log = nn.Parameter(torch.log(steps).repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u = self.conv1d(u.transpose(1, 2))[..., :tokens].transpose(1, 2)
        u = functional.silu(u)
        delta, b, c = self.x_proj(u).split([self.rank, self.states, self.states], dim=-1)
        delta = functional.softplus(self.dt_proj(delta))
        decay = torch.einsum("bld,dn->bldn", delta, -torch.exp(self.A_log))
        added = torch.einsum("bld,bln->bldn", delta * u, b)
        scan = self.by_sums if self.scan == "sums" else self.by_steps
        y = torch.einsum("bldn,bln->bld", scan(decay, added), c) + self.D * u
        return self.out_proj(y * functional.silu(gate))

    @staticmethod
    def by_steps(decay: Tensor, added: Tensor) -> Tensor:
        """``h = exp(decay) * h + added``, token by token."""
        factors, states = torch.exp(decay), [added[:, 0]]
        for token in range(1, decay.shape[1]):
            states.append(factors[:, token] * states[-1] + added[:, token])
        return torch.stack(states, dim=1)

    @staticmethod
    def by_sums(decay: Tensor, added: Tensor) -> Tensor:
        """The same by sums of logarithms of the factors."""
        total = torch.cumsum(decay, dim=1)
        return torch.exp(total) * torch.cumsum(added * torch.exp(-total), dim=1)


def model(
    *, tokens: int = 8, hidden: int = 64, states: int = 16, width: int = 4, scan: str = "sums"
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The block in the mode of evaluation, and a prompt of one sequence.

    ``scan`` is ``"sums"`` or ``"steps"``.
    """
    block = Mamba(hidden, states, width, max(1, hidden // 16), scan)
    return block.eval(), (torch.zeros(1, tokens, hidden),)
