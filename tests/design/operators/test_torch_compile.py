"""``stepsim compile FILE.py:NAME`` of a PyTorch module: from the module to a plan that runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stepsim as st
from tests.design.operators.example_models import require_torch

pytestmark = pytest.mark.torch

MODULE = """
import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def model():
    return Mlp(), (torch.zeros(16, 64),)
"""


def test_a_module_compiles_on_the_command_line(tmp_path: Path) -> None:
    """In a process of its own, which hides packages that pyarrow would load."""
    require_torch()
    (tmp_path / "mlp.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-m", "stepsim", "compile", "mlp.py:model", "--out", "design"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plan = st.design.Plan.load(tmp_path / "design" / "plan.yaml")
    assert f"{plan.simulated:,} cycles" in done.stdout


ODD = """
import torch


class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.logcumsumexp(self.up(x), -1) + torch.sort(x).values


model = Odd(), (torch.zeros(8, 16),)
"""


def test_unknown_operators_are_listed_or_become_opaque(tmp_path: Path) -> None:
    require_torch()
    (tmp_path / "odd.py").write_text(ODD)

    def compiled(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stepsim", "compile", "odd.py:model", *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = compiled()
    assert refused.returncode == 2
    where = "in the module itself (odd.py:11)"
    for said in ("2 operators are not known", f"aten.logcumsumexp.default {where}",
                 f"aten.sort.default {where}", "--keep-going"):  # fmt: skip
        assert said in refused.stderr
    done = compiled("--keep-going", "--tile", "8", "--out", "design")
    assert done.returncode == 0, done.stderr
    plan = st.design.Plan.load(tmp_path / "design" / "plan.yaml")
    assert [op.kind for op in plan.graph.operators.ops].count("opaque") == 2
